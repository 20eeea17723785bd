#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Two real clusters on this machine: rome borrows from milan, and a web server
# that was created on rome runs on milan. Then milan asks rome for the same, is
# refused, is accepted, and gives it back. Each step can be repeated: running
# this again on a live playground leaves what is there, and shows the rest anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bin=.playground/bin logs=_output/demo api=/apis/federation.liqo.io/v1alpha1
mkdir -p "${logs}"

bold='' dim='' red='' plain=''
if [[ -t 1 ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'
fi

current='start' detail=''
step() {
  current=$1 detail=''
  printf '\n%s[%3d:%02d] %s%s\n' "${bold}" $((SECONDS / 60)) $((SECONDS % 60)) "$1" "${plain}"
}

failed() {
  local status=$?
  [[ ${status} != 0 ]] || return 0
  printf '\n%sThe demo failed at: %s%s\n' "${red}" "${current}" "${plain}" >&2
  if [[ -n ${detail} ]]; then
    tail -n 20 "${detail}" >&2
    echo "All of it: ${detail}" >&2
  fi
  echo "The clusters' logs: ${bin}/playground logs --help; the product's: ${bin}/kubectl --kubeconfig .playground/rome.kubeconfig logs -n liqo deploy/federation-controller-manager" >&2
  echo "Run make demo again to go on from here, or make playground-down to take everything down." >&2
}
trap failed EXIT

# quietly NAME COMMAND... runs a command with its output in a log, and tells how
# long it has been running while it does.
quietly() {
  local name=$1 start=${SECONDS} pid next=15
  shift
  detail=${logs}/${name}.log
  "$@" >"${detail}" 2>&1 &
  pid=$!
  while kill -0 "${pid}" 2>/dev/null; do
    if [[ -t 1 ]]; then
      printf '\r  %s%s … %d s%s ' "${dim}" "${name}" $((SECONDS - start)) "${plain}"
    elif ((SECONDS - start >= next)); then
      echo "  ${name} … $((SECONDS - start)) s"
      next=$((next + 15))
    fi
    sleep 0.2
  done
  if [[ -t 1 ]]; then
    printf '\r\e[K'
  fi
  wait "${pid}"
  echo "  ${name}: $((SECONDS - start)) s"
}

rome() { "${bin}/kubectl" --kubeconfig .playground/rome.kubeconfig "$@"; }
milan() { "${bin}/kubectl" --kubeconfig .playground/milan.kubeconfig "$@"; }

# shown CLUSTER ARGS... prints a kubectl command and its output.
shown() {
  local cluster=$1 line='' word
  shift
  for word in "$@"; do
    [[ ${word} != *[{?]* ]] || word="'${word}'"
    line+=" ${word}"
  done
  printf '%s%s$ kubectl%s%s\n' "${dim}" "${cluster}" "${line}" "${plain}"
  "${cluster}" "$@"
}

install() {
  local cluster=$1
  shift
  "${bin}/helm" upgrade --install liqo artifacts/chart --kubeconfig ".playground/${cluster}.kubeconfig" \
    --namespace liqo --create-namespace --wait --timeout 3m \
    --set "clusterName=${cluster}" --set-string "images.tag=$(cat _output/images/version)" \
    --set "server=$("${cluster}" config view --minify -o jsonpath='{.clusters[0].cluster.server}')" "$@" ||
    { "${cluster}" get pods -n liqo; return 1; }
  "${cluster}" wait --for=condition=Available --timeout=60s apiservice/v1alpha1.federation.liqo.io
}

install_both() {
  local first
  install rome &
  first=$!
  install milan --set-json 'clusterLabels={"topology.liqo.io/region":"north"}'
  wait "${first}"
}

# borrows CONSUMER PROVIDER tells whether the consumer has taken an invitation.
borrows() {
  [[ $("$1" get foreigncluster "$2" -o jsonpath='{.spec.outgoing}' 2>/dev/null) == Enabled ]]
}

# invitation PROVIDER CONSUMER prints what the consumer POSTs to the verb peer.
# Who holds it can peer once.
invitation() {
  local token
  token=$("$1" create -o jsonpath='{.metadata.name}' -f - <<END
{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "PeeringToken", "metadata": {"generateName": "$2-"}}
END
  )
  "$1" create --raw "${api}/peeringtokens/${token}/invitation" -f - <<'END' | jq .status.peering
{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Invitation"}
END
}

step 'Building the programs and their images'
quietly programs make images

step 'Bringing up the clusters rome and milan (a first run builds Kubernetes: about 11 minutes on 2 cores)'
"${bin}/playground" up rome milan --workers 1

step 'Installing the product on both with its Helm chart'
quietly load "${bin}/playground" load _output/images/*.tar
quietly install install_both
detail=''

step 'Peering: milan invites, rome accepts'
if borrows rome milan; then
  echo '  rome and milan know each other already'
else
  detail=${logs}/peering.log
  { invitation milan rome | rome create --raw "${api}/foreignclusters/milan/peer" -f - >/dev/null; } 2>"${detail}"
fi
rome wait --for=condition=Ready --timeout=120s foreigncluster/milan
rome wait --for=create --timeout=60s node/liqo-milan
rome wait --for=condition=Ready --timeout=60s node/liqo-milan
shown rome get foreignclusters
shown milan get foreignclusters
shown rome get resourcerequests,resourceoffers,virtualnodes -A
shown rome get nodes

step 'Offloading the namespace demo'
rome create namespace demo --dry-run=client -o yaml | rome apply -f - >/dev/null
offload=${api}/namespaces/demo/namespaceoffloadings/offloading/offload
body='{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Offload", "spec": {"podOffloadingStrategy": "Remote"}}'
printf "%srome$ kubectl create --raw '%s?dryRun=All' -f offload.json | jq .status.plan%s\n" "${dim}" "${offload}" "${plain}"
rome create --raw "${offload}?dryRun=All" -f - <<<"${body}" | jq .status.plan
rome create --raw "${offload}" -f - <<<"${body}" >/dev/null
rome wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s namespaceoffloading/offloading -n demo
shown rome get namespaceoffloadings -n demo

step 'Running a web server'
rome apply -n demo -f artifacts/samples/web.yaml
rome rollout status -n demo deployment/web --timeout=120s
shown rome get pods -n demo -o wide
twin=$(rome get namespaceoffloading offloading -n demo -o jsonpath='{.status.remoteNamespaceName}')
shown milan get pods -n "${twin}" -o wide

step 'Its page, its log and a command in it, all from rome'
# Not through the function: a function in the background is a shell, and killing
# that leaves its kubectl.
"${bin}/kubectl" --kubeconfig .playground/rome.kubeconfig port-forward -n demo deployment/web :8080 >"${logs}/port-forward.log" 2>&1 &
forward=$!
trap 'kill "${forward}" 2>/dev/null || true; failed' EXIT
for _ in {1..100}; do
  port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "${logs}/port-forward.log")
  [[ -z ${port} ]] || break
  kill -0 "${forward}" || { detail=${logs}/port-forward.log; exit 1; }
  sleep 0.1
done
printf '%s$ kubectl port-forward -n demo deployment/web %s:8080 & curl http://localhost:%s/hostname%s\n' "${dim}" "${port}" "${port}" "${plain}"
curl --silent --show-error --fail --max-time 10 "http://127.0.0.1:${port}/hostname"
echo
shown rome logs -n demo deployment/web --tail=5
shown rome exec -n demo deployment/web -- /agnhost etc-hosts

step 'Both ways: milan asks rome, and rome refuses'
shown rome patch foreigncluster milan --type=merge -p '{"spec":{"lending":{"decision":"Refuse","reason":"no room before May"}}}'
if ! borrows milan rome; then
  detail=${logs}/peering.log
  peering=$(invitation rome milan 2>"${detail}")
  printf "%smilan$ kubectl create --raw '%s/foreignclusters/rome/peer?dryRun=All' -f peering.json | jq .status.plan%s\n" "${dim}" "${api}" "${plain}"
  milan create --raw "${api}/foreignclusters/rome/peer?dryRun=All" -f - <<<"${peering}" | jq .status.plan
  milan create --raw "${api}/foreignclusters/rome/peer" -f - <<<"${peering}" 2>>"${detail}" >/dev/null
fi
milan wait --for=jsonpath='{.status.outgoingPeering}'=Denied --timeout=60s foreigncluster/rome
shown milan get foreignclusters
shown milan get foreigncluster rome -o jsonpath='{.status.conditions[?(@.type=="OutgoingPeering")].message}{"\n"}'

step 'rome takes its word back, and milan borrows from it'
shown rome patch foreigncluster milan --type=merge -p '{"spec":{"lending":null}}'
milan wait --for=condition=Ready --timeout=60s foreigncluster/rome
shown rome get foreignclusters
shown milan get foreignclusters,nodes

step 'One way again: milan gives back what it borrowed, and rome keeps what it has'
printf "%smilan$ kubectl delete --raw '%s/foreignclusters/rome/peer'%s\n" "${dim}" "${api}" "${plain}"
milan delete --raw "${api}/foreignclusters/rome/peer" >/dev/null
milan wait --for=jsonpath='{.status.outgoingPeering}'=None --timeout=120s foreigncluster/rome
rome wait --for=jsonpath='{.status.incomingPeering}'=None --timeout=60s foreigncluster/milan
shown rome get foreignclusters
shown milan get foreignclusters,nodes
shown rome get pods -n demo -o wide

step 'Done'
cat <<END
Look around:
  export PATH=\$PWD/${bin}:\$PATH KUBECONFIG=\$PWD/.playground/rome.kubeconfig
  kubectl get liqo -A                                 everything of the federation
  kubectl describe node liqo-milan                    what milan lends
  kubectl scale -n demo deployment/web --replicas=5   more pods on milan
  kubectl explain foreigncluster.spec                 every field, explained
  kubectl delete namespaceoffloading offloading -n demo   bring the namespace home
  kubectl delete foreigncluster milan                 unpeer; nothing stays on either side
Take it down:
  make playground-down
END
