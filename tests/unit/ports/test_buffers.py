from penstock.ports.buffers import FIRST_SIZE_MIN, BufferPool

MIB = 1024 * 1024
TEN_BYTES = memoryview(b"0123456789")


def test_an_announced_frame_costs_only_what_came() -> None:
    pool = BufferPool(budget=100 * MIB)
    buffers = [pool.take(99 * MIB, TEN_BYTES, 0.0) for _ in range(1000)]
    assert pool.used == 1000 * FIRST_SIZE_MIN
    assert all(bytes(buffer.data[: buffer.filled]) == bytes(TEN_BYTES) for buffer in buffers)


def test_a_buffer_grows_to_the_frame_and_no_further() -> None:
    pool = BufferPool(budget=10 * MIB)
    buffer = pool.take(MIB + 1, TEN_BYTES, 0.0)
    while len(buffer.data) < buffer.size:
        assert pool.grow(buffer)
    assert len(buffer.data) == MIB + 1 == pool.used


def test_over_budget_one_frame_at_a_time_gets_on() -> None:
    pool = BufferPool(budget=FIRST_SIZE_MIN)
    first, second = pool.take(MIB, TEN_BYTES, 0.0), pool.take(MIB, TEN_BYTES, 0.0)
    assert pool.grow(first)
    assert not pool.grow(second)
    assert pool.grow(first)
    pool.give_back(first)
    assert pool.grow(second)


def test_used_memory_is_kept_for_the_next_frame() -> None:
    pool = BufferPool(budget=10 * MIB)
    buffer = pool.take(FIRST_SIZE_MIN, TEN_BYTES, 0.0)
    data = buffer.data
    pool.give_back(buffer)
    assert pool.used == 0
    assert pool.take(1000, TEN_BYTES, 0.0).data is data
