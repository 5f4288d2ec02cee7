import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after another in one JVM, because starting a JVM takes longer than most tools.
 *
 * A command on stdin: count, then that many length-prefixed strings: stdin text, class name, arguments.
 * A response on stdout: exit code, length-prefixed output, length-prefixed errors.
 */
public final class Runner {
    /** Thrown instead of ending the process, so that the JVM can run the next command. */
    static final class Ended extends Error {
    }

    /** The first exit counts: some tools catch everything, including Ended, and then exit again. */
    private static Integer exitCode;

    private static void end(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
            if (message != null) {
                System.err.println(message);
            }
            System.out.flush();
            System.err.flush();
            out.target = OutputStream.nullOutputStream();
            err.target = OutputStream.nullOutputStream();
        }
        throw new Ended();
    }

    private static final Switch out = new Switch();
    private static final Switch err = new Switch();

    /** Tools and Scala's Console keep the first stream they see, so its target is replaced. */
    static final class Switch extends OutputStream {
        volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int one) throws IOException {
            target.write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int size) throws IOException {
            target.write(bytes, from, size);
        }
    }

    public static void main(String[] ignored) throws Exception {
        DataInputStream commands = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(new PrintStream(System.out));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Runner::end);
        Exit.setHaltProcedure(Runner::end);
        // kafka-console-producer flushes in its shutdown hook; here the hooks run after each command.
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            String[] words;
            try {
                words = read(commands);
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            ByteArrayOutputStream outBytes = new ByteArrayOutputStream();
            ByteArrayOutputStream errBytes = new ByteArrayOutputStream();
            out.target = outBytes;
            err.target = errBytes;
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            exitCode = null;
            int code = run(words);
            hooks.forEach(Runnable::run);
            hooks.clear();
            answers.writeInt(code);
            write(answers, outBytes);
            write(answers, errBytes);
            answers.flush();
        }
    }

    private static int run(String[] words) {
        String[] arguments = java.util.Arrays.copyOfRange(words, 2, words.length);
        try {
            Class.forName(words[1]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return exitCode == null ? 0 : exitCode;
        } catch (InvocationTargetException wrapped) {
            if (exitCode != null) {
                return exitCode;
            }
            wrapped.getCause().printStackTrace(System.err);
            return 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace(System.err);
            return 2;
        }
    }

    private static String[] read(DataInputStream from) throws IOException {
        String[] words = new String[from.readInt()];
        for (int index = 0; index < words.length; index++) {
            words[index] = new String(from.readNBytes(from.readInt()), StandardCharsets.UTF_8);
        }
        return words;
    }

    private static void write(DataOutputStream to, ByteArrayOutputStream bytes) throws IOException {
        to.writeInt(bytes.size());
        bytes.writeTo(to);
    }
}
