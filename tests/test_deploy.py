"""examples/deploy: its commands, options, paths and names are those of Tidegate and of Spark."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml
from click.testing import CliRunner

from tidegate.cli import COMMANDS, main
from tidegate.cli.exits import EXIT_CODES, TRY_AGAIN
from tidegate.metrics.server import CHECKS, answer

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples" / "deploy"


def accepts(words: list[str]) -> None:
    """Let the command line parse a command, without running it."""
    command = next(each for each in COMMANDS if each.name == words[0])
    command.make_context(words[0], words[1:], parent=main.make_context("tidegate", ["x"]))


def unit() -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / "tidegate@.service")
    return {name: dict(parser[name]) for name in parser.sections()}


def test_the_unit_runs_a_command_and_restarts_after_what_may_pass_only():
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.endswith("/tidegate")
    accepts(words)
    known = {str(each.code) for each in EXIT_CODES}
    prevented = set(service["RestartPreventExitStatus"].split())
    assert prevented < known
    assert str(TRY_AGAIN) not in prevented


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with their continued lines."""
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    found = [line.partition(" ") for line in lines if line.strip()]
    return [(name, rest.strip()) for name, _, rest in found]


def test_the_image_copies_what_exists_and_runs_a_command_that_exists():
    found = instructions()
    copied = [
        [word for word in shlex.split(rest) if not word.startswith("--")]
        for name, rest in found
        if name == "COPY"
    ]
    for *sources, _ in copied:
        assert all((ROOT / source).exists() for source in sources)
    targets = {target for *_, target in copied}
    by_name = dict(found)
    (entry,) = json.loads(by_name["ENTRYPOINT"])
    assert entry in targets
    accepts(json.loads(by_name["CMD"]))
    (path,) = re.findall(r"http://127\.0\.0\.1:9464(/\w+)", by_name["HEALTHCHECK"])
    assert path in CHECKS
    assert by_name["USER"] == "10001"
    # Everything that the package is built from is there.
    build = (ROOT / "pyproject.toml").read_text()
    (included,) = re.findall(r'force-include\]\n"([^"]+)"', build)
    assert included in {source for *sources, _ in copied for source in sources}


@pytest.fixture
def container(tmp_path):
    """Run the entry point beside programs that print their words, one in a line."""
    for name in ("java", "tidegate", "python"):
        fake = tmp_path / name
        shown = 'printf \'%s\\n\' "${0##*/}" "$@"'
        fake.write_text(f"#!/bin/sh\n{'echo /spark' if name == 'python' else shown}\n")
        fake.chmod(0o755)

    def run(*words: str, **variables: str) -> list[str]:
        ended = subprocess.run(
            [DEPLOY / "entrypoint.sh", *words],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout.splitlines()

    return run


EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@delays-0.delays.streams.svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def test_a_container_runs_a_command_of_tidegate_or_an_executor_of_spark(container):
    assert container("run", "a b.toml", "--once") == ["tidegate", "run", "a b.toml", "--once"]
    java = container(
        "executor",
        **EXECUTOR,
        SPARK_JAVA_OPT_0="-Dspark.driver.port=7078",
        SPARK_JAVA_OPT_1="-Dx=a b",
    )
    options = ["-Dspark.driver.port=7078", "-Dx=a b", "-Xms2048m", "-Xmx2048m"]
    assert java[:7] == ["java", *options, "-cp", "/spark/jars/*"]
    assert java[7] == BACKEND
    told = dict(zip(java[8::2], java[9::2], strict=True))
    assert told["--driver-url"] == EXECUTOR["SPARK_DRIVER_URL"]
    assert set(told.values()) == set(EXECUTOR.values()) - {"2048m"}


def test_the_executor_is_told_what_this_spark_tells_and_asks():
    """The names of variables and options stand in the classes of Spark's Kubernetes module."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-kubernetes_*.jar")
    script = (DEPLOY / "entrypoint.sh").read_text()
    with zipfile.ZipFile(jar) as classes:
        constants = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
        backend = b"".join(
            classes.read(name)
            for name in classes.namelist()
            if name.startswith(BACKEND.replace(".", "/"))
        )
    for name in {*EXECUTOR, "SPARK_JAVA_OPT_", "SPARK_DRIVER_BIND_ADDRESS", "SPARK_CLASSPATH"}:
        assert name in script
        assert name.encode() in constants, name
    for option in re.findall(r"(--\S+) \"\$SPARK_(?!DRIVER_BIND)", script):
        assert option.encode() in backend, option


def manifests() -> dict[str, dict]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {each["kind"]: each for each in found}


def of_probe(probe: dict) -> None:
    url = urlsplit(probe["httpGet"]["path"])
    assert url.path in CHECKS
    assert answer(url.path, url.query)[0] != 400


def test_the_manifests_fit_each_other_and_the_command_line():
    found = manifests()
    workload, service = found["StatefulSet"]["spec"], found["Service"]["spec"]
    pod = workload["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    assert workload["replicas"] == 1
    assert workload["selector"]["matchLabels"] == service["selector"] == labels
    assert workload["serviceName"] == found["Service"]["metadata"]["name"]
    accepts(container["args"])
    for kind in ("readinessProbe", "livenessProbe"):
        of_probe(container[kind])
    assert pod["spec"]["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    mounted = container["volumeMounts"][0]["mountPath"]
    assert container["args"][1] == f"{mounted}/{next(iter(found['ConfigMap']['data']))}"


def test_the_pipeline_in_the_manifests_is_right_and_knows_its_pod(tmp_path):
    found = manifests()
    text = found["ConfigMap"]["data"]["pipeline.toml"]
    file = tmp_path / "pipeline.toml"
    # Only Spark can look at a bucket.
    file.write_text(text.replace("s3a://streams/", f"{tmp_path}/"))
    asked = CliRunner().invoke(main, ["check", str(file)], env={"KAFKA_SERVERS": "kafka:9092"})
    assert asked.exit_code == 0, asked.output
    name = found["StatefulSet"]["metadata"]["name"]
    assert f'driver.pod.name = "{name}-0"' in text
    assert f'spark.driver.host = "{name}-0.{found["Service"]["metadata"]["name"]}.' in text
    ports = {each["port"] for each in found["Service"]["spec"]["ports"]}
    assert ports == {int(each) for each in re.findall(r"\.port = (\d+)", text)} | {9464}


def test_spark_submit_gets_options_and_a_job_that_the_image_has(tmp_path):
    fake = tmp_path / "spark-submit"
    fake.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    fake.chmod(0o755)
    ended = subprocess.run(
        [DEPLOY / "spark-submit.sh"],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "API": "https://k8s.example:6443",
            "IMAGE": "registry.example/tidegate:1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    words = ended.stdout.splitlines()
    place = next(number for number, word in enumerate(words) if word.startswith("local://"))
    accepts(words[place + 1 :])
    job = words[place].removeprefix("local://")
    assert ("COPY", f"examples/deploy/run_pipeline.py {job}") in instructions()
    given = dict(word.split("=", 1) for word in words if word.startswith("spark."))
    template = Path(given["spark.kubernetes.driver.podTemplateFile"])
    (container,) = yaml.safe_load(template.read_text())["spec"]["containers"]
    for kind in ("readinessProbe", "livenessProbe"):
        of_probe(container[kind])
    account = given["spark.kubernetes.authenticate.driver.serviceAccountName"]
    assert account == manifests()["ServiceAccount"]["metadata"]["name"]
