#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Peers two real clusters on this machine, rome (consumer) and milan (provider), whose pods have the same
# addresses. It shows that:
# - a web server created on rome runs on milan;
# - pods, nodes and Services reach each other through a tunnel, even after the active gateway is killed;
# - milan can become a consumer of rome, too: rome refuses it, then accepts it, and milan unpeers again;
# - a shop of nine services runs on both clusters, and the volume of a database moves to milan.
# CLUSTERS=3 adds the provider naples, in another region. Run the demo again to update the programs: existing
# clusters and peerings are kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bin=.playground/bin logs=_output/demo api=/apis/federation.liqo.io/v1alpha1
case ${CLUSTERS:-2} in
  2) providers=(milan) ;;
  3) providers=(milan naples) ;;
  *)
    echo "CLUSTERS=${CLUSTERS}: use 2 or 3" >&2
    exit 2
    ;;
esac
readonly providers
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

forwards=()
ended() {
  local status=$? pid
  for pid in "${forwards[@]}"; do
    kill "${pid}" 2>/dev/null || true
  done
  [[ ${status} != 0 ]] || return 0
  printf '\n%sThe demo failed at: %s%s\n' "${red}" "${current}" "${plain}" >&2
  if [[ -n ${detail} ]]; then
    tail -n 20 "${detail}" >&2
    echo "The whole log: ${detail}" >&2
  fi
  echo "Logs of the clusters: ${bin}/playground logs --help; of the controllers: ${bin}/kubectl --kubeconfig .playground/rome.kubeconfig logs -n liqo deploy/federation-controller-manager" >&2
  echo "To continue, run make demo again; to delete the clusters, make playground-down." >&2
}
trap ended EXIT
# quietly NAME COMMAND... runs a command with its output in a log file, and prints the elapsed time.
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
naples() { "${bin}/kubectl" --kubeconfig .playground/naples.kubeconfig "$@"; }

# shown CLUSTER ARGS... prints a kubectl command and its output.
shown() {
  local cluster=$1 line='' word
  shift
  for word in "$@"; do
    case ${word} in
      *\'*) word=$(printf '%q' "${word}") ;;
      *[!A-Za-z0-9_./:=,%@+-]*) word="'${word}'" ;;
    esac
    line+=" ${word}"
  done
  printf '%s%s$ kubectl%s%s\n' "${dim}" "${cluster}" "${line}" "${plain}"
  "${cluster}" "$@"
}

# requested CLUSTER URL FILE prints the plan of a request (its dry run), and then sends the request.
requested() {
  printf "%s%s$ kubectl create --raw '%s?dryRun=All' -f %s | jq .status.plan%s\n" "${dim}" "$1" "$2" "$3" "${plain}"
  "$1" create --raw "$2?dryRun=All" -f "$3" | jq .status.plan
  printf "%s%s$ kubectl create --raw %s -f %s%s\n" "${dim}" "$1" "$2" "$3" "${plain}"
  "$1" create --raw "$2" -f "$3" >/dev/null
}

# written FILE BODY writes the body of a request to a file, and prints it.
written() {
  printf '%s$ cat %s%s\n' "${dim}" "$1" "${plain}"
  jq . <<<"$2" | tee "$1"
}

# forward NAMESPACE TARGET forwards a free local port to port 8080 of a pod on rome until the demo ends, and sets
# the variable port to its number.
forward() {
  local log=${logs}/port-forward-$1.log pid
  # kubectl is called directly: the function rome would run in a subshell, and killing that does not end kubectl.
  "${bin}/kubectl" --kubeconfig .playground/rome.kubeconfig port-forward -n "$1" "$2" :8080 >"${log}" 2>&1 &
  pid=$!
  forwards+=("${pid}")
  for _ in {1..100}; do
    port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "${log}")
    [[ -z ${port} ]] || break
    kill -0 "${pid}" || { detail=${log}; exit 1; }
    sleep 0.1
  done
  printf '%srome$ kubectl port-forward -n %s %s %s:8080 &%s\n' "${dim}" "$1" "$2" "${port}" "${plain}"
}

# network CLUSTER prints the value network for a cluster, with each of its nodes as an endpoint of the gateway.
network() {
  jq --null-input --argjson nodes "$("$1" get nodes -l 'liqo.io/type!=virtual-node' -o json)" '{
    enabled: true,
    endpoints: [$nodes.items[].status.addresses[] | select(.type == "InternalIP").address + ":51820"],
    gateway: {tolerations: [{operator: "Exists"}]}
  }'
}

install() {
  local cluster=$1
  shift
  "${bin}/helm" upgrade --install liqo artifacts/chart --kubeconfig ".playground/${cluster}.kubeconfig" \
    --namespace liqo --create-namespace --wait --timeout 3m \
    --set "clusterName=${cluster}" --set-string "images.tag=$(cat _output/images/version)" \
    --set "server=$("${cluster}" config view --minify -o jsonpath='{.clusters[0].cluster.server}')" \
    --set policy.trust=SameOwner --set networking=Tunnel --set-json "network=$(network "${cluster}")" "$@" ||
    { "${cluster}" get pods -n liqo; return 1; }
  "${cluster}" wait --for=condition=Available --timeout=60s apiservice/v1alpha1.federation.liqo.io
}

install_all() {
  local pids=() pid
  install rome &
  pids+=($!)
  install milan --set-json 'clusterLabels={"topology.liqo.io/region":"north"}' &
  pids+=($!)
  if [[ ${providers[*]} == *naples* ]]; then
    install naples --set-json 'clusterLabels={"topology.liqo.io/region":"south"}' &
    pids+=($!)
  fi
  for pid in "${pids[@]}"; do
    wait "${pid}"
  done
}

# peered CONSUMER PROVIDER succeeds if the outgoing peering of the consumer with the provider is enabled.
peered() {
  [[ $("$1" get foreigncluster "$2" -o jsonpath='{.spec.outgoing}' 2>/dev/null) == Enabled ]]
}

# invitation PROVIDER CONSUMER prints an invitation, the body of the consumer's POST to the verb peer. It contains
# a secret with which the consumer can peer once.
invitation() {
  local id token
  id=$("$2" get namespace kube-system -o jsonpath='{.metadata.uid}')
  token=$("$1" create -o jsonpath='{.metadata.name}' -f - <<END
{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "PeeringToken", "metadata": {"generateName": "$2-"},
 "spec": {"consumerClusterID": "${id}"}}
END
  )
  "$1" create --raw "${api}/peeringtokens/${token}/invitation" -f - <<'END' | jq .status.peering
{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Invitation"}
END
}

# active prints the node of rome's active gateway.
active() { rome get lease federation-gateway -n liqo -o jsonpath='{.spec.holderIdentity}'; }

# killed NODE kills the gateway on a node, and fails if no gateway runs on it.
killed() {
  "${bin}/playground" exec "$1" -- bash -c '
    for process in /proc/[0-9]*; do
      read -rd "" program <"${process}/cmdline" || continue
      [[ ${program} != /federation-gateway ]] || { kill -9 "${process#/proc/}" && killed=1; }
    done
    [[ ${killed} ]]' 2>/dev/null
}

# answers NODE URL SECONDS sends requests from a node for some seconds, and prints the time of each response and
# of the end.
answers() {
  "${bin}/playground" exec "$1" -- bash -c '
    end=$((SECONDS + $2))
    while ((SECONDS < end)); do
      curl --silent --fail --max-time 0.25 --output /dev/null "$1" && echo "${EPOCHREALTIME} answer"
    done
    echo "${EPOCHREALTIME} end"' answers "$2" "$3"
}

# progress prints the state of the database's move whenever it changes, until the move ends. It fails unless the
# move succeeds.
progress() {
  local line='' last='' phase=''
  detail=${logs}/move.log
  for _ in {1..600}; do
    read -r phase line < <(rome get virtualvolume data-database-0 -n bank -o json | jq -r '.status.move |
      [.phase] + ([
        if .bytesTotal then "\(.bytesCopied // 0) of \(.bytesTotal) bytes" else empty end,
        if .filesCopied then "\(.filesCopied) files" else empty end,
        if .passes then "pass \(.passes)" else empty end,
        if .bytesPerSecond then "\(.bytesPerSecond) bytes/s" else empty end,
        if .remainingSeconds then "\(.remainingSeconds) s left" else empty end,
        if .downtimeMilliseconds then "downtime \(.downtimeMilliseconds) ms" else empty end
      ] | if . == [] then [] else [join(", ")] end) | join(" ")' 2>"${detail}") || true
    if [[ "${phase} ${line}" != "${last}" && -n ${phase} && ${phase} != null ]]; then
      last="${phase} ${line}"
      if [[ -t 1 ]]; then printf '\r\e[K  %s %s' "${phase}" "${line}"; else echo "  ${phase} ${line}"; fi
    fi
    case ${phase} in Succeeded) break ;; Failed | Cancelled) break ;; esac
    sleep 0.5
  done
  [[ ! -t 1 ]] || echo
  [[ ${phase} == Succeeded ]] || { rome describe virtualvolume data-database-0 -n bank; return 1; }
}

step 'Building the programs and their images'
quietly programs make images samples

step "Bringing up the clusters rome, ${providers[*]} (a first run builds Kubernetes: about 11 minutes on 2 cores)"
"${bin}/playground" up rome "${providers[@]}" --workers 1

step 'Installing Liqo Federation on each with its Helm chart'
quietly load "${bin}/playground" load _output/images/*.tar _output/samples/*.tar
quietly install install_all
detail=''

for provider in "${providers[@]}"; do
  step "Peering: the provider ${provider} invites, the consumer rome accepts"
  if peered rome "${provider}"; then
    echo "  rome and ${provider} are already peered"
  else
    detail=${logs}/peering.log
    { invitation "${provider}" rome | rome create --raw "${api}/foreignclusters/${provider}/peer" -f - >/dev/null; } 2>"${detail}"
  fi
  rome wait --for=condition=Ready --timeout=120s "foreigncluster/${provider}"
  rome wait --for=create --timeout=60s "node/liqo-${provider}"
  rome wait --for=condition=Ready --timeout=60s "node/liqo-${provider}"
  rome wait --for=jsonpath='{.status.networking}'=Established --timeout=120s "foreigncluster/${provider}"
  "${provider}" wait --for=jsonpath='{.status.networking}'=Established --timeout=60s foreigncluster/rome
done
shown rome get foreignclusters
shown milan get foreignclusters
shown rome get resourcerequests,resourceoffers,virtualnodes -A
shown rome get nodes

step 'Offloading the namespace demo of rome to providers in the region north'
rome create namespace demo --dry-run=client -o yaml | rome apply -f - >/dev/null
offload=${api}/namespaces/demo/namespaceoffloadings/offloading/offload
body='{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Offload", "spec": {"podOffloadingStrategy": "Remote", "clusterSelector": {"nodeSelectorTerms":
  [{"matchExpressions": [{"key": "topology.liqo.io/region", "operator": "In", "values": ["north"]}]}]}}}'
written "${logs}/offload.json" "${body}"
requested rome "${offload}" "${logs}/offload.json"
rome wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s namespaceoffloading/offloading -n demo
shown rome get namespaceoffloadings -n demo

step 'Creating a web server on rome, which runs on milan'
rome apply -n demo -f artifacts/samples/web.yaml
rome rollout status -n demo deployment/web --timeout=120s
shown rome get pods -n demo -o wide
remote=$(rome get namespaceoffloading offloading -n demo -o jsonpath='{.status.remoteNamespaceName}')
shown milan get pods -n "${remote}" -o wide

step 'Port-forward, logs and exec on rome, for the pod on milan'
forward demo deployment/web
printf '%s$ curl http://localhost:%s/hostname%s\n' "${dim}" "${port}" "${plain}"
curl --silent --show-error --fail --max-time 10 "http://127.0.0.1:${port}/hostname"
echo
shown rome logs -n demo deployment/web --tail=5
shown rome exec -n demo deployment/web -- /agnhost etc-hosts

step 'Pods of both clusters use the same CIDR, and reach each other through a tunnel'
shown rome get clusterinfo local
shown rome get networkconfigs -n liqo-peer-milan
rome wait --for=jsonpath='{.status.latencyMicroseconds}' --timeout=60s tunnelendpoint/milan -n liqo
shown rome get tunnelendpoints -n liqo -o wide
rome apply -f artifacts/samples/both.yaml >"${logs}/both.log"
rome wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s namespaceoffloading/offloading -n both
rome rollout status -n both deployment/web --timeout=120s
shown rome get pods -n both -o wide
local_pod=$(rome get pods -n both -o json | jq -r '[.items[] | select(.spec.nodeName != "liqo-milan" and .metadata.deletionTimestamp == null)][0].metadata.name')
read -r remote_pod address < <(rome get pods -n both -o json | jq -r '[.items[] | select(.spec.nodeName == "liqo-milan" and .metadata.deletionTimestamp == null)][0] | .metadata.name + " " + .status.podIP')
page=http://${address}:8080/hostname
service=http://$(rome get service web -n both -o jsonpath='{.spec.clusterIP}'):8080/hostname
remote=$(rome get namespaceoffloading offloading -n both -o jsonpath='{.status.remoteNamespaceName}')
echo "  $(milan get pod "${remote_pod}" -n "${remote}" -o jsonpath='{.status.podIP}') on milan is ${address} on rome."
shown rome exec -n both "${local_pod}" -- wget -qO- "${page}"
echo
printf '%srome-control-plane$ curl %s%s\n' "${dim}" "${page}" "${plain}"
"${bin}/playground" exec rome-control-plane -- curl --silent --show-error --fail --max-time 10 "${page}"
echo
for from in pod node; do
  # A Service selects an endpoint at random, and gets new endpoints shortly after their pods are ready.
  seen=()
  detail=${logs}/service.log
  for _ in {1..50}; do
    if [[ ${from} == pod ]]; then
      client=(timeout 10 "${bin}/kubectl" --kubeconfig .playground/rome.kubeconfig exec -n both "${local_pod}" -- wget -qO- http://web:8080/hostname)
    else
      client=("${bin}/playground" exec rome-control-plane -- curl --silent --show-error --fail --max-time 5 "${service}")
    fi
    answer=$("${client[@]}" 2>"${detail}") || { sleep 0.2; continue; }
    [[ " ${seen[*]} " == *" ${answer} "* ]] || seen+=("${answer}")
    [[ ${#seen[@]} -lt 2 ]] || break
  done
  [[ ${#seen[@]} == 2 ]] || { echo "  a ${from} of rome reached Service web on ${seen[*]} only" >&2; exit 1; }
  echo "  a ${from} of rome reaches Service web on ${seen[0]} and ${seen[1]}"
done

step 'Failover: the active gateway of rome is killed under traffic'
gateway=$(active)
from=rome-control-plane
[[ ${gateway} != "${from}" ]] || from=rome-worker-1
answers "${from}" "${page}" 8 >"${logs}/answers.log" &
requests=$!
for _ in {1..100}; do
  [[ ! -s ${logs}/answers.log ]] || break
  sleep 0.1
done
printf '%s%s$ kill -9 gateway%s\n' "${dim}" "${gateway}" "${plain}"
killed "${gateway}" || { echo "  no gateway runs on ${gateway}" >&2; exit 1; }
wait "${requests}"
awk '{ pause = NR > 1 ? $1 - last : 0; last = $1 } pause > longest { longest = pause } $2 == "answer" { answers++ }
  END {
    printf "  %d answers; the longest time without one was %.2f s\n", answers, longest
    if (pause > 3) { print "  there were no answers at the end" > "/dev/stderr"; exit 1 }
  }' "${logs}/answers.log"
echo "  the active gateway of rome was on ${gateway}, and is on $(active)"
rome wait --for=jsonpath='{.status.networking}'=Established --timeout=60s foreigncluster/milan

step 'Both directions: milan requests resources of rome, and rome refuses'
shown rome patch foreigncluster milan --type=merge -p '{"spec":{"incomingPolicy":{"decision":"Refuse","reason":"no room before May"}}}'
if ! peered milan rome; then
  detail=${logs}/peering.log
  # The file contains a token: only its owner may read it, and it is not printed.
  (umask 077 && invitation rome milan >"${logs}/peering.json" 2>"${detail}")
  requested milan "${api}/foreignclusters/rome/peer" "${logs}/peering.json"
  rm "${logs}/peering.json"
fi
milan wait --for=jsonpath='{.status.outgoingPeering}'=Denied --timeout=60s foreigncluster/rome
shown milan get foreignclusters
shown milan get foreigncluster rome -o jsonpath='{.status.conditions[?(@.type=="OutgoingPeering")].message}{"\n"}'

step 'rome accepts: each cluster is a consumer and a provider of the other'
shown rome patch foreigncluster milan --type=merge -p '{"spec":{"incomingPolicy":null}}'
milan wait --for=condition=Ready --timeout=60s foreigncluster/rome
shown rome get foreignclusters
shown milan get foreignclusters,nodes

step 'One direction again: milan unpeers from rome; the pods of rome on milan are not affected'
printf "%smilan$ kubectl delete --raw '%s/foreignclusters/rome/peer'%s\n" "${dim}" "${api}" "${plain}"
milan delete --raw "${api}/foreignclusters/rome/peer" >/dev/null
milan wait --for=jsonpath='{.status.outgoingPeering}'=None --timeout=120s foreigncluster/rome
rome wait --for=jsonpath='{.status.incomingPeering}'=None --timeout=60s foreigncluster/milan
shown rome get foreignclusters
shown milan get foreignclusters,nodes
shown rome get pods -n demo -o wide

step 'An application on both clusters: nine services, and a DaemonSet for the nodes of rome'
rome create namespace shop --dry-run=client -o yaml | rome apply -f - >/dev/null
if ! rome get namespaceoffloading offloading -n shop >/dev/null 2>&1; then
  jq '.spec.podOffloadingStrategy = "LocalAndRemote"' <<<"${body}" |
    rome create --raw "${api}/namespaces/shop/namespaceoffloadings/offloading/offload" -f - >/dev/null
fi
rome wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s namespaceoffloading/offloading -n shop
rome apply -n shop -f artifacts/samples/shop.yaml >"${logs}/shop.log"
rome wait -n shop --for=condition=Available --timeout=120s deployments --all >>"${logs}/shop.log"
rome wait -n shop --for=condition=Complete --timeout=120s job/seed >>"${logs}/shop.log"
# The autoscaler scales Deployment recommend to two pods, which are spread over nodes.
rome wait -n shop --for=jsonpath='{.status.availableReplicas}'=2 --timeout=120s deployment/recommend >>"${logs}/shop.log"
shown rome get pods -n shop -o wide
remote=$(rome get namespaceoffloading offloading -n shop -o jsonpath='{.status.remoteNamespaceName}')
shown milan get pods,services,ingresses -n "${remote}"

step 'A customer buys a bottle of wine'
forward shop deployment/front
for request in 'GET /' 'POST /cart?product=wine' 'POST /checkout'; do
  printf '%s$ curl -X %s http://localhost:%s%s%s\n' "${dim}" "${request% *}" "${port}" "${request#* }" "${plain}"
  curl --silent --show-error --fail --max-time 10 -X "${request% *}" "http://127.0.0.1:${port}${request#* }"
done

step 'Volumes: a database runs on rome, which stores its data'
shown milan patch foreigncluster rome --type=merge -p '{"spec":{"incomingPolicy":{"storageClasses":["local"],"limits":{"requests.storage":"10Gi"}}}}'
rome wait virtualnode --all -n liqo-peer-milan --for=jsonpath='{.status.storageClasses[0]}'=local --timeout=60s
rome apply -f artifacts/samples/database.yaml >"${logs}/database.log"
rome rollout status -n bank statefulset/database --timeout=180s
query() { shown rome exec -n bank database-0 -- psql --username=postgres -c "$1"; }
query 'CREATE TABLE IF NOT EXISTS account AS SELECT id, 100 AS balance FROM generate_series(1, 1000) id'
shown rome get virtualvolumes -n bank

step 'Moving the data to milan while the database runs'
move=${api}/namespaces/bank/virtualvolumes/data-database-0/move
body='{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Move", "spec": {"target": {"clusterName": "milan"}}}'
if [[ $(rome get virtualvolume data-database-0 -n bank -o jsonpath='{.status.location.clusterName}') == milan ]]; then
  echo '  milan already stores the data'
else
  written "${logs}/move.json" "${body}"
  requested rome "${move}" "${logs}/move.json"
  progress
fi
shown rome get virtualvolumes -n bank
rome rollout status -n bank statefulset/database --timeout=120s
shown rome get pods -n bank -o wide
rome get pod database-0 -n bank -o go-template='  the next pod follows the data: {{.metadata.name}} runs on {{.spec.nodeName}}{{"\n"}}'
query 'SELECT count(*), sum(balance) FROM account'

if [[ ${providers[*]} == *naples* ]]; then
  step 'By region: pods that run in the south'
  shown rome get nodes -L topology.liqo.io/region
  shown rome apply -f artifacts/samples/regional.yaml
  rome wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s namespaceoffloading/offloading -n regional
  rome rollout status -n regional deployment/web --timeout=120s
  shown rome get namespaceoffloadings -n regional
  shown rome get pods -n regional -o wide
  remote=$(rome get namespaceoffloading offloading -n regional -o jsonpath='{.status.remoteNamespaceName}')
  shown naples get pods -n "${remote}" -o wide
fi

step 'Done'
cat <<END
Next:
  export PATH=\$PWD/${bin}:\$PATH KUBECONFIG=\$PWD/.playground/rome.kubeconfig   and milan.kubeconfig for the other cluster
  kubectl get liqo -A                                 all objects of the federation API
  kubectl get tunnelendpoints -n liqo -o wide         tunnels, with their latency
  kubectl describe node liqo-milan                    the virtual node: the resources that milan offers
  kubectl scale -n demo deployment/web --replicas=5   more pods on milan
  kubectl explain foreigncluster.spec                 the description of every field
  kubectl delete namespaceoffloading offloading -n demo   unoffload the namespace
  kubectl delete foreigncluster milan                 unpeer, after the data of bank was moved to rome or deleted
To delete the clusters:
  make playground-down
END
