#!/bin/sh
# Runs a pipeline on Kubernetes by spark-submit in cluster mode: the driver is a pod that Spark makes.
#
#   IMAGE=registry.example/tidegate:1 API=https://kubernetes.example:6443 ./spark-submit.sh
#
# The service account comes from kubernetes.yaml, as does the ConfigMap with the pipeline, which must
# not set spark.master here. SIGTERM to such a driver (kubectl delete pod) reaches Java first and ends it
# inside a batch, which the next start runs again; to end after a batch use kubernetes.yaml.
set -eu
exec spark-submit \
  --master "k8s://$API" \
  --deploy-mode cluster \
  --name "${NAME:-delays}" \
  --conf spark.kubernetes.namespace="${NAMESPACE:-streams}" \
  --conf spark.kubernetes.container.image="$IMAGE" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=tidegate \
  --conf spark.kubernetes.driver.podTemplateFile="${TEMPLATE:-$(dirname "$0")/driver-pod.yaml}" \
  --conf spark.executor.instances="${EXECUTORS:-2}" \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=2g \
  --conf spark.driver.memory=1g \
  local:///opt/tidegate/run_pipeline.py run /pipeline/pipeline.toml --log-format json --metrics-port 9464
