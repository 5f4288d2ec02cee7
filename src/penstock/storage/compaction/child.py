"""The child process that runs compaction passes: `python -m penstock.storage.compaction.child`.

Reads a task from a line, reports each group and waits until it is swapped, reports the end, and waits for the next
task. Ends with its parent.
"""

from penstock.ports.real.child import Pace, ParentWatch, lines_from_parent, send_to_parent
from penstock.ports.real.disk import RealDisk
from penstock.storage.compaction.inline import run_step
from penstock.storage.compaction.rewrite import compact
from penstock.storage.compaction.task import RESUME, CleanedGroup, Task, encode_message


def main() -> None:
    watch = ParentWatch()
    disk = RealDisk()
    lines = lines_from_parent()
    for line in lines:
        task = Task.decode(line)
        pace = Pace(task.bytes_per_second)
        steps = compact(disk, task)
        while True:
            message = run_step(steps)
            watch.look()
            if isinstance(message, int):
                pace.worked(message)
                continue
            send_to_parent(encode_message(message))
            if not isinstance(message, CleanedGroup) or next(lines, None) != RESUME:
                break


if __name__ == "__main__":
    main()
