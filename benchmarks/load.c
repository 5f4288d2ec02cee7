/*
 * The load generator of the benchmarks, in C so that the client is not the bottleneck.
 *
 *   load produce LIBRDKAFKA BOOTSTRAP TOPIC COUNT SIZE [name=value ...]
 *   load consume LIBRDKAFKA BOOTSTRAP TOPIC COUNT [name=value ...]
 *   load latency LIBRDKAFKA BOOTSTRAP TOPIC COUNT SIZE RATE [name=value ...]
 *   load requests HOST PORT FRAME_FILE CONNECTIONS DEPTH COUNT
 *   load paced HOST PORT FRAME_FILE PERIOD SECONDS ERROR_AT
 *   load shares HOST PORT FRAME_FILE WORK_MS SECONDS
 *   load echo HOST
 *
 * The first three use librdkafka, loaded at run time from the given path, so that no headers are
 * needed. The others send prepared frames over raw sockets: `requests` as fast as they are answered, DEPTH in
 * flight, each connection one frame of the file repeatedly; `paced` each frame of the file on a
 * separate connection once per PERIOD seconds; `shares` as the members of a share group, which read the
 * responses. Each prints one JSON object. `echo` is an echo server: it prints its port and exits when its
 * standard input is closed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why ? why : strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* CPU time of the thread that has used most of it: near the elapsed time, the client is the limit. */
static double busiest_thread(void) {
    double most = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300];
        long long nanoseconds = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%lld", &nanoseconds) == 1 && (double)nanoseconds / 1e9 > most)
            most = (double)nanoseconds / 1e9;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return most;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_latencies(double *seconds, long count) {
    if (count == 0) {
        printf("\"p50_us\": null, \"p99_us\": null, \"p999_us\": null, \"max_us\": null");
        return;
    }
    qsort(seconds, (size_t)count, sizeof *seconds, by_size);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f", seconds[count / 2] * 1e6,
           seconds[(long)((double)count * 0.99)] * 1e6, seconds[(long)((double)count * 0.999)] * 1e6,
           seconds[count - 1] * 1e6);
}

/* ---- librdkafka: the functions used here ---- */

typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *internal;
} Message;

static void *library;
static char error_text[512];
static long delivered, failed;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        die(name, dlerror());
    return found;
}

#define CALL(type, name, ...) ((type(*)(__VA_ARGS__))symbol(name))

static void on_delivery(void *client, const Message *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err)
        failed++;
    delivered++;
}

static void *new_client(int is_consumer, const char *bootstrap, int argc, char **settings) {
    void *conf = CALL(void *, "rd_kafka_conf_new", void)();
    int (*set)(void *, const char *, const char *, char *, size_t) = symbol("rd_kafka_conf_set");
    set(conf, "bootstrap.servers", bootstrap, error_text, sizeof error_text);
    for (int index = 0; index < argc; index++) {
        char *value = strchr(settings[index], '=');
        if (!value)
            die(settings[index], "not name=value");
        *value++ = 0;
        if (set(conf, settings[index], value, error_text, sizeof error_text))
            die(settings[index], error_text);
    }
    if (!is_consumer)
        CALL(void, "rd_kafka_conf_set_dr_msg_cb", void *, void (*)(void *, const Message *, void *))(conf, on_delivery);
    void *client = CALL(void *, "rd_kafka_new", int, void *, char *, size_t)(is_consumer, conf, error_text, sizeof error_text);
    if (!client)
        die("librdkafka", error_text);
    return client;
}

/* Words of a small vocabulary, which compress about as well as logs. */
static char *make_text(size_t size) {
    static const char *words[] = {"flow ",  "gate ",  "wheel ", "river ", "pressure ", "turbine ", "0.173 ", "open ",
                                  "closed ", "valve ", "84112 ", "level ", "2026-01-", "sensor-", "ok ",      "warn "};
    char *text = malloc(size + 16);
    size_t at = 0;
    uint32_t state = 12345;
    while (at < size) {
        state = state * 1664525u + 1013904223u;
        const char *word = words[state >> 28];
        size_t length = strlen(word);
        memcpy(text + at, word, length);
        at += length;
        if ((state >> 20 & 7) == 0 && at + 8 < size)
            at += (size_t)snprintf(text + at, 9, "%08x", state);
    }
    return text;
}

enum { POOL = 1 << 22, CHUNK = 10000 };

static int produce(int argc, char **argv) {
    if (argc < 5)
        die("produce", "needs LIBRDKAFKA BOOTSTRAP TOPIC COUNT SIZE");
    long count = atol(argv[3]);
    size_t size = (size_t)atol(argv[4]);
    void *client = new_client(0, argv[1], argc - 5, argv + 5);
    void *topic = CALL(void *, "rd_kafka_topic_new", void *, const char *, void *)(client, argv[2], NULL);
    int (*send)(void *, int32_t, int, Message *, int) = symbol("rd_kafka_produce_batch");
    int (*poll_events)(void *, int) = symbol("rd_kafka_poll");
    char *text = make_text(POOL);
    Message *messages = calloc(CHUNK, sizeof *messages);
    size_t at = 0;
    /* Send one record first, so that connecting and finding the leader are not measured. */
    messages[0].payload = text;
    messages[0].size = size;
    send(topic, 0, 0, messages, 1);
    for (double deadline = now() + 15; delivered < 1;) {
        poll_events(client, 100);
        if (now() > deadline)
            die("produce", "the first record was not delivered within 15 s");
    }
    delivered = failed = 0;
    double started = now(), busy = busiest_thread();
    for (long sent = 0; sent < count;) {
        int chunk = count - sent < CHUNK ? (int)(count - sent) : CHUNK;
        for (int index = 0; index < chunk; index++) {
            memset(&messages[index], 0, sizeof messages[index]);
            messages[index].payload = text + at;
            messages[index].size = size;
            at = at + size + 7 > POOL - size ? 0 : at + size + 7;
        }
        int first = 0;
        while (first < chunk) {
            int taken = send(topic, 0, 0, messages + first, chunk - first);
            if (taken < chunk - first) {
                /* The queue is full: rejected records are at the end, in order, for one partition. */
                int kept = first;
                for (int index = first; index < chunk; index++)
                    if (messages[index].err)
                        messages[kept++] = messages[index];
                chunk = kept;
                for (int index = first; index < chunk; index++)
                    messages[index].err = 0;
                sent += taken;
                poll_events(client, 5);
            } else {
                sent += taken;
                first = chunk;
            }
        }
        poll_events(client, 0);
    }
    for (double deadline = now() + 120; delivered < count;) {
        poll_events(client, 50);
        if (now() > deadline)
            die("produce", "not all records were delivered within 120 s");
    }
    double seconds = now() - started;
    printf("{\"records\": %ld, \"bytes\": %ld, \"failed\": %ld, \"seconds\": %.4f, \"busiest_thread_s\": %.4f}\n", count,
           count * (long)size, failed, seconds, busiest_thread() - busy);
    fflush(stdout);
    _exit(failed ? 2 : 0);
}

static void *assigned_consumer(const char *bootstrap, const char *topic, int64_t offset, int argc, char **settings) {
    void *client = new_client(1, bootstrap, argc, settings);
    void *list = CALL(void *, "rd_kafka_topic_partition_list_new", int)(1);
    CALL(void *, "rd_kafka_topic_partition_list_add", void *, const char *, int32_t)(list, topic, 0);
    CALL(int, "rd_kafka_topic_partition_list_set_offset", void *, const char *, int32_t, int64_t)(list, topic, 0, offset);
    CALL(int, "rd_kafka_assign", void *, void *)(client, list);
    return client;
}

static int consume(int argc, char **argv) {
    if (argc < 4)
        die("consume", "needs LIBRDKAFKA BOOTSTRAP TOPIC COUNT");
    long count = atol(argv[3]), got = 0, bytes = 0, first = 0;
    void *client = assigned_consumer(argv[1], argv[2], 0, argc - 4, argv + 4);
    void *queue = CALL(void *, "rd_kafka_queue_get_consumer", void *)(client);
    long (*take)(void *, int, Message **, size_t) = symbol("rd_kafka_consume_batch_queue");
    void (*drop)(Message *) = symbol("rd_kafka_message_destroy");
    Message **messages = calloc(CHUNK, sizeof *messages);
    double started = 0, busy = 0;
    for (double deadline = now() + 60; got < count && now() < deadline;) {
        long taken = take(queue, 1000, messages, CHUNK);
        for (long index = 0; index < taken; index++) {
            if (!messages[index]->err) {
                got++;
                bytes += (long)messages[index]->size;
            }
            drop(messages[index]);
        }
        if (taken > 0 && !started) { /* the clock starts with the first records, which are not counted */
            started = now();
            busy = busiest_thread();
            first = got;
            bytes = 0;
        }
    }
    double seconds = now() - started;
    printf("{\"records\": %ld, \"bytes\": %ld, \"failed\": %ld, \"seconds\": %.4f, \"busiest_thread_s\": %.4f}\n", got - first,
           bytes, count > got ? count - got : 0, seconds, busiest_thread() - busy);
    fflush(stdout);
    _exit(got < count ? 2 : 0);
}

/* Records at a steady rate; each has its send time, which the reader in the same process subtracts. */
static int latency(int argc, char **argv) {
    if (argc < 6)
        die("latency", "needs LIBRDKAFKA BOOTSTRAP TOPIC COUNT SIZE RATE");
    long count = atol(argv[3]), sent = 0, got = 0, warm = count / 10;
    size_t size = (size_t)atol(argv[4]);
    double rate = atof(argv[5]);
    char *fast[] = {strdup("fetch.wait.max.ms=500"), strdup("fetch.min.bytes=1"), strdup("group.id=load"),
                    strdup("enable.auto.commit=false")};
    void *producer = new_client(0, argv[1], argc - 6, argv + 6);
    void *topic = CALL(void *, "rd_kafka_topic_new", void *, const char *, void *)(producer, argv[2], NULL);
    void *consumer = assigned_consumer(argv[1], argv[2], 0, 4, fast);
    void *queue = CALL(void *, "rd_kafka_queue_get_consumer", void *)(consumer);
    int (*send)(void *, int32_t, int, Message *, int) = symbol("rd_kafka_produce_batch");
    int (*poll_events)(void *, int) = symbol("rd_kafka_poll");
    long (*take)(void *, int, Message **, size_t) = symbol("rd_kafka_consume_batch_queue");
    void (*drop)(Message *) = symbol("rd_kafka_message_destroy");
    Message **messages = calloc(CHUNK, sizeof *messages);
    double *seconds = calloc((size_t)count, sizeof *seconds);
    char *text = make_text(size + 64);
    double started = now() + 0.5; /* time to connect */
    double deadline = started + (double)count / rate + 15;
    while (got < count && now() < deadline) {
        long due = (long)((now() - started) * rate);
        for (; sent < due && sent < count; sent++) {
            Message one = {0};
            double at = now();
            memcpy(text, &at, sizeof at);
            one.payload = text;
            one.size = size;
            if (send(topic, 0, 2 /* copy */, &one, 1) != 1)
                break;
        }
        poll_events(producer, 0);
        long taken = take(queue, 0, messages, CHUNK);
        double at = now();
        for (long index = 0; index < taken; index++) {
            if (!messages[index]->err && messages[index]->size == size && got < count) {
                double handed;
                memcpy(&handed, messages[index]->payload, sizeof handed);
                seconds[got++] = at - handed;
            }
            drop(messages[index]);
        }
        if (taken <= 0) {
            struct timespec little = {0, 20000};
            nanosleep(&little, NULL);
        }
    }
    printf("{\"records\": %ld, \"failed\": %ld, ", got, count - got);
    print_latencies(seconds + (got > warm ? warm : 0), got > warm ? got - warm : got);
    printf("}\n");
    fflush(stdout);
    _exit(got < count ? 2 : 0);
}

/* ---- raw sockets ---- */

typedef struct {
    int socket;
    char *burst; /* several copies of its frame, so that many small ones are sent at a time */
    size_t frame_size;
    long burst_frames;
    size_t written; /* of the current frame */
    long started, answered;
    unsigned char head[4];
    size_t head_have;
    size_t body_left;
    double *sent_at; /* a ring of DEPTH moments */
} Connection;

static int connect_to(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, host, &address.sin_addr);
    int one = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (connect(one, (struct sockaddr *)&address, sizeof address))
        die("connect", NULL);
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(one, F_SETFL, O_NONBLOCK);
    return one;
}

static char scratch[1 << 20];
static double *taken_times;
static long taken_count, taken_room, answer_bytes, wanted_each;

static void write_some(Connection *on, long depth) {
    while (on->started < wanted_each && (on->started - on->answered < depth || on->written)) {
        long room = depth - (on->started - on->answered) - (on->written ? 1 : 0);
        long left = wanted_each - on->started - (on->written ? 1 : 0);
        long whole = room < left ? room : left;
        if (whole > on->burst_frames - 1)
            whole = on->burst_frames - 1;
        size_t size = (on->written ? on->frame_size - on->written : 0) + (whole > 0 ? (size_t)whole * on->frame_size : 0);
        if (size == 0)
            return;
        ssize_t done = send(on->socket, on->burst + on->written, size, MSG_NOSIGNAL);
        if (done < 0) {
            if (errno == EAGAIN)
                return;
            die("send", NULL);
        }
        size_t total = on->written + (size_t)done;
        double at = now();
        for (; total >= on->frame_size; total -= on->frame_size, on->started++)
            on->sent_at[on->started % depth] = at;
        on->written = total;
        if ((size_t)done < size)
            return;
    }
}

static void read_some(Connection *on, long depth) {
    while (1) {
        ssize_t size = recv(on->socket, scratch, sizeof scratch, 0);
        if (size < 0) {
            if (errno == EAGAIN)
                return;
            die("recv", NULL);
        }
        if (size == 0)
            die("recv", "the broker closed the connection");
        answer_bytes += size;
        double at = now();
        for (size_t used = 0; used < (size_t)size;) {
            if (on->body_left) {
                size_t part = (size_t)size - used < on->body_left ? (size_t)size - used : on->body_left;
                on->body_left -= part;
                used += part;
            } else {
                on->head[on->head_have++] = (unsigned char)scratch[used++];
                if (on->head_have < 4)
                    continue;
                on->head_have = 0;
                on->body_left = (size_t)on->head[0] << 24 | (size_t)on->head[1] << 16 | (size_t)on->head[2] << 8 | on->head[3];
            }
            if (on->body_left == 0 && on->head_have == 0) {
                if (taken_count < taken_room)
                    taken_times[taken_count++] = at - on->sent_at[on->answered % depth];
                on->answered++;
            }
        }
        if ((size_t)size < sizeof scratch)
            return;
    }
}

/* A file of consecutive frames; each starts with its size. */
typedef struct {
    char *at;
    size_t size;
} Frame;

static Frame *read_frames(const char *path, long *count) {
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path, NULL);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file), at = 0;
    rewind(file);
    char *bytes = malloc(size + 4);
    if (fread(bytes, 1, size, file) != size)
        die(path, NULL);
    Frame *frames = NULL;
    for (*count = 0; at < size; (*count)++) {
        uint32_t length;
        memcpy(&length, bytes + at, 4);
        if ((*count & (*count - 1)) == 0)
            frames = realloc(frames, sizeof *frames * (size_t)(*count ? *count * 2 : 1));
        frames[*count] = (Frame){bytes + at, 4 + (size_t)ntohl(length)};
        at += frames[*count].size;
    }
    return frames;
}

static int requests(int argc, char **argv) {
    if (argc < 6)
        die("requests", "needs HOST PORT FRAME_FILE CONNECTIONS DEPTH COUNT");
    long frame_count, connections = atol(argv[3]), depth = atol(argv[4]), count = atol(argv[5]), sent_bytes = 0;
    Frame *frames = read_frames(argv[2], &frame_count);
    wanted_each = count / connections;
    taken_room = count < 2000000 ? count : 2000000;
    taken_times = calloc((size_t)taken_room, sizeof *taken_times);
    Connection *all = calloc((size_t)connections, sizeof *all);
    struct pollfd *polls = calloc((size_t)connections, sizeof *polls);
    for (long index = 0; index < connections; index++) {
        Connection *on = &all[index];
        Frame frame = frames[index % frame_count];
        on->socket = polls[index].fd = connect_to(argv[0], argv[1]);
        on->sent_at = calloc((size_t)depth, sizeof(double));
        on->frame_size = frame.size;
        on->burst_frames = frame.size * (size_t)depth < (4u << 20) ? depth + 1 : 2;
        on->burst = malloc(frame.size * (size_t)on->burst_frames);
        for (long copy = 0; copy < on->burst_frames; copy++)
            memcpy(on->burst + (size_t)copy * frame.size, frame.at, frame.size);
        sent_bytes += wanted_each * (long)frame.size;
    }
    double started = now();
    for (long open = connections; open > 0;) {
        open = 0;
        for (long index = 0; index < connections; index++) {
            Connection *on = &all[index];
            write_some(on, depth);
            int writes = on->written > 0;
            open += on->answered < wanted_each;
            polls[index].events = (short)((on->answered < wanted_each ? POLLIN : 0) | (writes ? POLLOUT : 0));
        }
        if (open && poll(polls, (nfds_t)connections, 10000) == 0)
            die("requests", "no answer for 10 s");
        for (long index = 0; open && index < connections; index++)
            if (polls[index].revents & (POLLIN | POLLHUP | POLLERR))
                read_some(&all[index], depth);
    }
    double seconds = now() - started;
    long done = wanted_each * connections;
    printf("{\"requests\": %ld, \"sent_bytes\": %ld, \"answer_bytes\": %ld, \"failed\": 0, \"seconds\": %.4f, ", done,
           sent_bytes, answer_bytes, seconds);
    print_latencies(taken_times, taken_count);
    printf("}\n");
    return 0;
}

/* One connection for each frame, each sent once per PERIOD, spread evenly over it, so that the
   load has a fixed rate. A response whose 16 bits at ERROR_AT (after the size) are not 0 has failed. */
static int paced(int argc, char **argv) {
    if (argc < 6)
        die("paced", "needs HOST PORT FRAME_FILE PERIOD SECONDS ERROR_AT");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    long count, sent = 0, answered = 0, wrong = 0, turn = 0;
    Frame *frames = read_frames(argv[2], &count);
    double period = atof(argv[3]), duration = atof(argv[4]);
    size_t error_at = (size_t)atol(argv[5]);
    int *sockets = calloc((size_t)count, sizeof *sockets), ready = epoll_create1(0);
    double *sent_at = calloc((size_t)count, sizeof *sent_at);
    taken_room = (long)(duration / period * (double)count) + count;
    taken_times = calloc((size_t)taken_room, sizeof *taken_times);
    for (long index = 0; index < count; index++) {
        sockets[index] = connect_to(argv[0], argv[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)index};
        epoll_ctl(ready, EPOLL_CTL_ADD, sockets[index], &event);
    }
    printf("ready\n");
    fflush(stdout);
    getchar(); /* the caller reads the CPU clocks now */
    double started = now();
    while (now() - started < duration || (answered < sent && now() - started < duration + 5)) {
        long due = (long)((now() - started < duration ? now() - started : duration) / period * (double)count);
        for (; sent < due; sent++, turn = (turn + 1) % count) {
            if (sent_at[turn])
                die("paced", "a request was due before the one before it was answered");
            if (send(sockets[turn], frames[turn].at, frames[turn].size, MSG_NOSIGNAL) != (ssize_t)frames[turn].size)
                die("send", NULL);
            sent_at[turn] = now();
        }
        struct epoll_event events[256];
        int found = epoll_wait(ready, events, 256, 1);
        for (int index = 0; index < found; index++) {
            long from = (long)events[index].data.u64;
            ssize_t size = recv(sockets[from], scratch, sizeof scratch, 0);
            if (size <= 0)
                die("recv", size ? NULL : "the broker closed the connection");
            if ((size_t)size < 4 + error_at + 2 || scratch[4 + error_at] || scratch[5 + error_at])
                wrong++;
            taken_times[taken_count++] = now() - sent_at[from];
            sent_at[from] = 0;
            answered++;
        }
    }
    printf("{\"requests\": %ld, \"failed\": %ld, \"seconds\": %.4f, ", answered, wrong + sent - answered, now() - started);
    print_latencies(taken_times, taken_count);
    printf("}\n");
    return wrong || answered < sent ? 2 : 0;
}

/* Members of a share group, each with a connection of its own. FRAME_FILE has three ShareFetch requests of
   version 2 for each member: the first one, one that acknowledges a range, and one that acknowledges nothing.
   A member sends the next request WORK_MS after it has received records, and acknowledges them with it.
   The first fifth of SECONDS is not counted. */
#define EPOCH_MARK "\x7e\x0c\x0a\x01"
#define RANGE_MARK "\x7e\x0c\x0a\x02\x7e\x0c\x0a\x03\x7e\x0c\x0a\x02\x7e\x0c\x0a\x03"

typedef struct {
    int socket;
    Frame first, acknowledging, plain;
    char *answer;
    size_t have, room;
    uint32_t epoch;
    unsigned char range[16]; /* first and last offset as they were received */
    long held;               /* records in the range */
    long acknowledged;       /* records in the request that waits for its response */
    double due, sent_at;
} Member;

typedef struct {
    const unsigned char *at, *end;
} Reader;

static const unsigned char *take_bytes(Reader *from, size_t size) {
    if ((size_t)(from->end - from->at) < size)
        die("shares", "a response is too short");
    from->at += size;
    return from->at - size;
}

static uint64_t take_varint(Reader *from) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *take_bytes(from, 1);
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static int64_t take_integer(Reader *from, size_t size) {
    uint64_t value = 0;
    for (const unsigned char *at = take_bytes(from, size), *end = at + size; at < end; at++)
        value = value << 8 | *at;
    return (int64_t)value;
}

static void skip_text(Reader *from) {
    uint64_t size = take_varint(from);
    take_bytes(from, size ? size - 1 : 0);
}

static void skip_tags(Reader *from) {
    for (uint64_t left = take_varint(from); left; left--) {
        take_varint(from);
        take_bytes(from, take_varint(from));
    }
}

static void expect_no_error(Reader *from, const char *where) {
    int64_t code = take_integer(from, 2);
    if (code) {
        snprintf(error_text, sizeof error_text, "error code %ld", (long)code);
        die(where, error_text);
    }
    skip_text(from);
}

/* Keep the range of the only partition's records, if the response has any. */
static void read_share_response(Member *member) {
    Reader from = {(unsigned char *)member->answer + 4, (unsigned char *)member->answer + member->have};
    member->held = 0;
    take_integer(&from, 4); /* correlation id */
    skip_tags(&from);
    take_integer(&from, 4); /* throttle time */
    expect_no_error(&from, "ShareFetch");
    take_integer(&from, 4); /* lock timeout */
    if (take_varint(&from) <= 1)
        return;
    take_bytes(&from, 16); /* topic id */
    if (take_varint(&from) <= 1)
        return;
    take_integer(&from, 4); /* partition */
    expect_no_error(&from, "ShareFetch of the partition");
    expect_no_error(&from, "acknowledgement");
    take_bytes(&from, 8); /* leader id and epoch */
    skip_tags(&from);
    skip_text(&from); /* the records */
    uint64_t ranges = take_varint(&from);
    if (ranges <= 1)
        return;
    if (ranges > 2)
        die("shares", "a response has more than one range");
    memcpy(member->range, take_bytes(&from, 16), 16);
    Reader range = {member->range, member->range + 16};
    int64_t first = take_integer(&range, 8);
    member->held = (long)(take_integer(&range, 8) - first + 1);
}

static void send_share_fetch(Member *member, size_t epoch_at, size_t range_at) {
    Frame frame = member->epoch == 0 ? member->first : member->held ? member->acknowledging : member->plain;
    uint32_t epoch = htonl(member->epoch);
    if (member->epoch)
        memcpy(frame.at + epoch_at, &epoch, 4);
    if (member->held)
        memcpy(frame.at + range_at, member->range, 16);
    if (send(member->socket, frame.at, frame.size, MSG_NOSIGNAL) != (ssize_t)frame.size)
        die("send", NULL);
    member->acknowledged = member->held;
    member->epoch++;
    member->sent_at = now();
}

/* Return whether the response is complete. */
static int receive_share_response(Member *member) {
    while (1) {
        size_t wanted = 4;
        if (member->have >= 4) {
            uint32_t size;
            memcpy(&size, member->answer, 4);
            wanted = 4 + (size_t)ntohl(size);
            if (member->have == wanted)
                return 1;
        }
        if (member->room < wanted)
            member->answer = realloc(member->answer, member->room = wanted < 65536 ? 65536 : wanted * 2);
        /* One request is in flight, so nothing follows the response. */
        ssize_t size = recv(member->socket, member->answer + member->have, member->room - member->have, 0);
        if (size < 0 && errno == EAGAIN)
            return 0;
        if (size <= 0)
            die("recv", size ? NULL : "the broker closed the connection");
        member->have += (size_t)size;
    }
}

static double client_cpu(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static int shares(int argc, char **argv) {
    if (argc < 5)
        die("shares", "needs HOST PORT FRAME_FILE WORK_MS SECONDS");
    long frame_count, accepted = 0, empty = 0, first_due = 0, due_count = 0;
    double work = atof(argv[3]) / 1000, duration = atof(argv[4]), begun = now(), started = 0, cpu_before = 0;
    Frame *frames = read_frames(argv[2], &frame_count);
    long members = frame_count / 3;
    Member *all = calloc((size_t)members, sizeof *all), **due = calloc((size_t)members, sizeof *due);
    int ready = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event timer_event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(ready, EPOLL_CTL_ADD, timer, &timer_event);
    taken_room = 4000000;
    taken_times = calloc((size_t)taken_room, sizeof *taken_times);
    Frame sample = frames[1];
    char *epoch_mark = memmem(sample.at, sample.size, EPOCH_MARK, 4);
    char *range_mark = memmem(sample.at, sample.size, RANGE_MARK, 16);
    if (!epoch_mark || !range_mark)
        die("shares", "a frame has no place for the epoch or the range");
    size_t epoch_at = (size_t)(epoch_mark - sample.at), range_at = (size_t)(range_mark - sample.at);
    for (long index = 0; index < members; index++) {
        Member *member = &all[index];
        member->first = frames[3 * index];
        member->acknowledging = frames[3 * index + 1];
        member->plain = frames[3 * index + 2];
        member->socket = connect_to(argv[0], argv[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = member};
        epoll_ctl(ready, EPOLL_CTL_ADD, member->socket, &event);
        send_share_fetch(member, epoch_at, range_at);
    }
    while (now() - begun < duration) {
        struct epoll_event events[256];
        int found = epoll_wait(ready, events, 256, 10000);
        if (found == 0)
            die("shares", "no response for 10 s");
        for (int index = 0; index < found; index++) {
            Member *member = events[index].data.ptr;
            if (!member || !receive_share_response(member))
                continue;
            double at = now();
            if (!started && at - begun >= duration / 5) {
                started = at;
                cpu_before = client_cpu();
            }
            if (started && member->acknowledged && taken_count < taken_room)
                taken_times[taken_count++] = at - member->sent_at;
            read_share_response(member);
            member->have = 0;
            accepted += started ? member->acknowledged : 0;
            empty += started && !member->held;
            member->due = at + work;
            if (member->held)
                due[(first_due + due_count++) % members] = member;
            else
                send_share_fetch(member, epoch_at, range_at);
        }
        double left = 0;
        while (due_count && (left = due[first_due]->due - now()) <= 0) {
            send_share_fetch(due[first_due], epoch_at, range_at);
            first_due = (first_due + 1) % members;
            due_count--;
        }
        struct itimerspec wait = {.it_value = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9) + 1}};
        if (due_count)
            timerfd_settime(timer, 0, &wait, NULL);
        else
            timerfd_settime(timer, 0, &(struct itimerspec){0}, NULL);
    }
    double seconds = now() - started;
    if (!accepted)
        die("shares", "no record was received");
    printf("{\"records\": %ld, \"seconds\": %.4f, \"client_cpu_s\": %.4f, \"empty\": %ld, ", accepted, seconds,
           client_cpu() - cpu_before, empty);
    print_latencies(taken_times, taken_count);
    printf("}\n");
    return 0;
}

/* The maximum of the machine and the client with a server that does no work. */
static int echo(char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t address_size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), ready = epoll_create1(0), yes = 1;
    inet_pton(AF_INET, argv[0], &address.sin_addr);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1000))
        die("echo", NULL);
    getsockname(listener, (struct sockaddr *)&address, &address_size);
    int watched[] = {listener, STDIN_FILENO};
    for (int index = 0; index < 2; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = watched[index]};
        epoll_ctl(ready, EPOLL_CTL_ADD, watched[index], &event);
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    while (1) {
        struct epoll_event events[256];
        int found = epoll_wait(ready, events, 256, -1);
        for (int index = 0; index < found; index++) {
            int from = events[index].data.fd;
            if (from == STDIN_FILENO)
                return 0;
            if (from == listener) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = accept(listener, NULL, NULL)};
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                epoll_ctl(ready, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            ssize_t size = recv(from, scratch, sizeof scratch, 0);
            if (size <= 0)
                close(from);
            else if (send(from, scratch, (size_t)size, MSG_NOSIGNAL) != size)
                die("echo", "the client does not read");
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        die("usage", "load produce|consume|latency|requests|paced|shares|echo ...");
    if (strcmp(argv[1], "echo") == 0)
        return echo(argv + 2);
    if (strcmp(argv[1], "requests") == 0)
        return requests(argc - 2, argv + 2);
    if (strcmp(argv[1], "paced") == 0)
        return paced(argc - 2, argv + 2);
    if (strcmp(argv[1], "shares") == 0)
        return shares(argc - 2, argv + 2);
    library = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        die("librdkafka", dlerror());
    if (strcmp(argv[1], "produce") == 0)
        return produce(argc - 2, argv + 2);
    if (strcmp(argv[1], "consume") == 0)
        return consume(argc - 2, argv + 2);
    if (strcmp(argv[1], "latency") == 0)
        return latency(argc - 2, argv + 2);
    die(argv[1], "no such load");
}
