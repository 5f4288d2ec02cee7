"""aiokafka, a client on asyncio."""
