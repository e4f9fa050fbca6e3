"""A Kafka broker in a process of its own: one node in KRaft mode, on free ports of loopback."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from systems.parts import class_path

USER, PASSWORD = "tidegate", "an-open-secret"
START_SECONDS = 60

# Small, and quick to start: it lives for minutes.
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=PLAIN://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SASL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={folder}/data
auto.create.topics.enable=false
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(kw_only=True)
class Broker:
    """A broker with its data in ``folder``; it keeps data and ports when it is started again.

    Attributes:
        servers: the address of clients without a password.
        secured: the address of clients that log in as ``USER`` (SASL_PLAINTEXT, PLAIN).
    """

    folder: Path
    servers: str = ""
    secured: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        plain, sasl, controller = free_ports(3)
        self.servers, self.secured = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        self._properties.write_text(
            PROPERTIES.format(
                plain=plain,
                sasl=sasl,
                controller=controller,
                folder=self.folder,
                user=USER,
                password=PASSWORD,
            )
        )
        storage = ("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._properties))
        command = self._java("kafka.tools.StorageTool", *storage)
        subprocess.run(command, check=True, timeout=START_SECONDS, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdout=log, stderr=log
            )
        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        deadline = monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, f"the broker ended at once:\n{self.tail()}"
            assert monotonic() < deadline, f"the broker does not answer:\n{self.tail()}"
            try:
                client.list_topics(timeout=0.5)
                return
            except KafkaException:
                continue

    def stop(self) -> None:
        """End the broker; its data stay."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def tail(self, lines: int = 40) -> str:
        """Return the end of the broker's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _java(self, main: str, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        jars = os.pathsep.join(class_path("kafka"))
        return [java, *JAVA, *LOGGING, "-cp", jars, main, *arguments]


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
