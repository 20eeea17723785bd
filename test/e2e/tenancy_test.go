// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// trustsAsTenant sets the trust of milan in rome to Tenant until the test ends, and waits until the offer states the
// limits for pods.
func trustsAsTenant(t *testing.T) {
	t.Helper()
	patchesPeerOnMilan(t, `{"trust":"Tenant"}`)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		result := milan.Kubectl(ctx, "patch", "foreigncluster", "rome", "--type=merge", "-p",
			`{"spec":{"trust":"SameOwner","reach":null,"incomingPolicy":null}}`)
		if result.Err != nil {
			t.Error(result.Err)
		}
	})
	isPrinted(t, rome, "get resourceoffer milan -n liqo-peer-milan -o jsonpath={.spec.pods}",
		`{"maxGracePeriodSeconds":3600}`)
}

// tenantsSelectNoNames lets rome select a well-known name for a remote namespace, which milan refuses until its
// administrator permits it.
func tenantsSelectNoNames(t *testing.T) {
	trustsAsTenant(t)
	namespace := namespaceOn(t, rome)
	offloadings := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace)
	must(offloadings.CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{
		Spec: v1alpha1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: v1alpha1.SelectedName, RemoteNamespaceName: "external-secrets",
		},
	}, metav1.CreateOptions{}))(t)
	phase := func(want v1alpha1.OffloadingPhase, words string) {
		t.Helper()
		eventually(t, soon, "the offloading to be "+string(want), func(ctx context.Context) (bool, string, error) {
			offloading, err := offloadings.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			text := show(offloading.Status)
			return offloading.Status.Phase == want && strings.Contains(text, words), text, nil
		})
	}
	phase(v1alpha1.OffloadingAllFailed, "spec.incomingPolicy.remoteNamespaces of ForeignCluster rome")
	_, err := milan.Kube.CoreV1().Namespaces().Get(t.Context(), "external-secrets", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("milan has the refused namespace: %v", err)
	}
	patchesPeerOnMilan(t, `{"incomingPolicy":{"remoteNamespaces":["external-*"]}}`)
	phase(v1alpha1.OffloadingReady, "")
}

// tenantsPodsAreWithinLimits runs pods that milan refuses until its administrator permits what they set.
func tenantsPodsAreWithinLimits(t *testing.T) {
	trustsAsTenant(t)
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	runPod(t, o.namespace, "tolerating", spec)
	reportsOnPod(t, o.namespace, "tolerating", "spec.incomingPolicy.pods.tolerations of ForeignCluster rome")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "annotated", Annotations: map[string]string{
		"k8s.v1.cni.cncf.io/networks": "kube-system/storage",
	}}, Spec: podSpec("serve")}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	reportsOnPod(t, o.namespace, "annotated", "spec.incomingPolicy.pods.metadataKeys of ForeignCluster rome")
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "meshed", Annotations: map[string]string{
		"sidecar.istio.io/inject": "false", "example.com/team": "a",
	}}, Spec: podSpec("serve")}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	podReady(t, rome, o.namespace, "meshed")
	remote := podReady(t, milan, o.remote, "meshed")
	if _, has := remote.Annotations["sidecar.istio.io/inject"]; has || remote.Annotations["example.com/team"] != "a" {
		t.Errorf("the remote pod has the annotations %v", remote.Annotations)
	}
	patchesPeerOnMilan(t, `{"incomingPolicy":{"pods":{"tolerations":["dedicated"]}}}`)
	podReady(t, milan, o.remote, "tolerating")
}

// tenantsObjectsAreWithinLimits reflects Services that milan refuses, and compares the numbers of objects that it
// permits. Then it creates ConfigMaps on milan with the identity of rome, until milan refuses them and those that are
// reflected. The events must name the fields of the policy.
func tenantsObjectsAreWithinLimits(t *testing.T) {
	trustsAsTenant(t)
	o := offloaded(t, remoteOnly)
	isPrinted(t, milan, "get resourcequota federation -n "+o.remote+
		` -o jsonpath={.spec.hard['count/configmaps']},{.spec.hard['services\.nodeports']}`, "100,0")
	isPrinted(t, milan, "get networkpolicy federation -n "+o.remote+" -o jsonpath={.spec.policyTypes}",
		`["Ingress","Egress"]`)
	kubectl(t, rome, "create", "service", "externalname", "db", "-n", o.namespace, "--external-name=db.example.com")
	kubectl(t, rome, "create", "service", "nodeport", "web", "-n", o.namespace, "--tcp=80")
	refusedFor := func(name string, words ...string) {
		eventually(t, soon, "an event on "+name, func(ctx context.Context) (bool, string, error) {
			result := rome.Kubectl(ctx, "get", "events", "-n", o.namespace, "--field-selector=involvedObject.name="+name,
				"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
			hasAll := func(message string) bool {
				return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(message, word) })
			}
			return slices.ContainsFunc(strings.Split(result.Stdout, "\n"), hasAll), result.Stdout, result.Err
		})
	}
	refusedFor("db", "spec.incomingPolicy.externalNames")
	refusedFor("web", "services.nodeports", "spec.incomingPolicy.objects")
	attacker := must(kubernetes.NewForConfig(identityAt(t, milan)))(t).CoreV1().ConfigMaps(o.remote)
	create := func(name string, bytes int) error {
		_, err := attacker.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"text": strings.Repeat("x", bytes)}}, metav1.CreateOptions{})
		return err
	}
	if err := create("large", 128<<10); !refused(err) || !strings.Contains(err.Error(), "maxObjectBytes") {
		t.Errorf("a ConfigMap of more than 128 KiB: %v, want it refused", err)
	}
	var err error
	for i := 0; i <= 100 && err == nil; i++ {
		err = create(fmt.Sprintf("small-%d", i), 1)
	}
	if !refused(err) || !strings.Contains(err.Error(), "exceeded quota: federation") {
		t.Errorf("more than 100 ConfigMaps: %v, want them refused", err)
	}
	kubectl(t, rome, "create", "configmap", "surplus", "-n", o.namespace, "--from-literal=text=x")
	refusedFor("surplus", "exceeded quota: federation", "count/configmaps", "spec.incomingPolicy.objects")
}

const (
	// metadataAddress is the address of the metadata services of most clouds, which the tests serve outside of the
	// clusters, as clouds do.
	metadataAddress = "169.254.169.254"
	// publicAddress is an address outside of the clusters that belongs to no peer.
	publicAddress = "203.0.113.7"
)

// tenantsAreIsolated serves requests at a metadata service and at a public address outside of the clusters, and checks
// which connections of an offloaded pod are refused.
func (f fabric) tenantsAreIsolated(t *testing.T) {
	servesOutside(t, "80")
	whileOutside(t, "address", metadataAddress+"/32 dev lo", func() {
		whileOutside(t, "address", publicAddress+"/32 dev lo", func() { f.isolatesTenants(t) })
	})
}

// isolatesTenants sends packets between an offloaded pod and other pods of milan, between it and pods of rome, and from
// it to nodes, the API server and a metadata service of milan. With trust Tenant they are refused, except those between
// rome and its pods and between its remote namespaces, until milan's administrator permits them. With trust SameOwner
// they are answered. Node ports are refused with either trust.
func (f fabric) isolatesTenants(t *testing.T) {
	enforcesNetworkPolicies(t, milan)
	o := offloaded(t, remoteOnly)
	runPod(t, o.namespace, "tenant", podSpec("serve"))
	tenant := caller{milan, podReady(t, milan, o.remote, "tenant")}
	second := offloaded(t, remoteOnly)
	runPod(t, second.namespace, "sibling", podSpec("serve"))
	sibling := caller{milan, podReady(t, milan, second.remote, "sibling")}
	others, visitor := onEachNode(t, milan), onEachNode(t, rome)[0]
	url := func(from, to caller) string { return f.url(t, from, to) }
	answers := func(from, to caller) {
		t.Helper()
		from.prints(t, "hello from "+to.pod.Name, "get", url(from, to))
	}
	each := func(check func(other caller)) {
		t.Helper()
		for _, other := range others {
			check(other)
		}
	}
	permitted := func(other caller) {
		t.Helper()
		answers(tenant, other)
		answers(other, tenant)
	}
	reachesItsConsumer := func() {
		t.Helper()
		permitted(sibling)
		answers(visitor, tenant)
		answers(tenant, visitor)
	}
	dns := must(milan.Kube.CoreV1().Services(metav1.NamespaceSystem).Get(t.Context(), "kube-dns", metav1.GetOptions{}))(t)
	resolvesNames := func() {
		t.Helper()
		tenant.prints(t, dns.Spec.ClusterIP, "lookup", "kube-dns.kube-system.svc.cluster.local")
	}
	api := must(milan.Kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t)
	// Servers that require TLS answer requests without TLS with status 400.
	const requiresTLS = "answers 400 Bad Request"
	ofTheProvider := map[string]string{
		"http://" + api.Spec.ClusterIP + ":443/":    requiresTLS,
		"http://" + metadataAddress + "/serverport": "80",
	}
	for _, node := range realNodes(t, milan) {
		ofTheProvider["http://"+nodeAddress(node)+":10250/"] = requiresTLS
	}
	outsideAnswers := func() {
		t.Helper()
		tenant.isAnswered(t, "http://"+publicAddress+"/serverport", "80")
	}

	each(permitted)
	reachesItsConsumer()
	for address, answer := range ofTheProvider {
		tenant.isAnswered(t, address, answer)
	}
	outsideAnswers()
	resolvesNames()
	answers(visitor, others[0])
	port := exposesByNodePort(t, others[0])
	f.reachesNoNodePort(t, visitor, others[0], port)
	trustsAsTenant(t)
	each(func(other caller) {
		tenant.isRefused(t, url(tenant, other))
		other.isRefused(t, url(other, tenant))
		sibling.isRefused(t, url(sibling, other))
		other.isRefused(t, url(other, sibling))
		visitor.isRefused(t, url(visitor, other))
	})
	for address := range ofTheProvider {
		tenant.isRefused(t, address)
	}
	outsideAnswers()
	resolvesNames()
	reachesItsConsumer()
	f.reachesNoNodePort(t, visitor, others[0], port)
	isReachedFrom(t, others[0].pod.Namespace, func() {
		each(func(other caller) {
			answers(other, tenant)
			tenant.isRefused(t, url(tenant, other))
		})
	})
	each(func(other caller) { other.isRefused(t, url(other, tenant)) })

	patchesPeerOnMilan(t, `{"reach":"All"}`)
	each(func(other caller) { answers(visitor, other) })
	f.reachesNoNodePort(t, visitor, others[0], port)
	patchesPeerOnMilan(t, `{"incomingPolicy":{"network":"Open"}}`)
	each(permitted)
}

// isReachedFrom lets isolated pods on milan be reached from a namespace until do returns.
func isReachedFrom(t *testing.T, namespace string, do func()) {
	t.Helper()
	before := revision(t, milan)
	defer func() {
		collect(t)
		revises(t, milan, "rollback", harness.Release, before, "--wait", "--timeout=3m")
	}()
	setsValues(t, milan, "policy.network.ingressFrom={"+namespace+"}")
	do()
}

// exposesByNodePort exposes a pod of milan by a node port, and returns the port.
func exposesByNodePort(t *testing.T, server caller) string {
	t.Helper()
	kubectl(t, milan, "label", "pod", server.pod.Name, "-n", server.pod.Namespace, "exposed=true")
	kubectl(t, milan, "create", "service", "nodeport", "exposed", "-n", server.pod.Namespace, "--tcp=8080")
	kubectl(t, milan, "set", "selector", "service/exposed", "-n", server.pod.Namespace, "exposed=true")
	return nodePort(t, milan, server.pod.Namespace, "exposed")
}

// reachesNoNodePort checks that a pod of rome does not reach a node port of milan through the tunnel by the addresses
// that the nodes have among their pods. server is the pod that answers at this port on the nodes.
func (f fabric) reachesNoNodePort(t *testing.T, visitor, server caller, port string) {
	t.Helper()
	for _, node := range realNodes(t, milan) {
		bridge := must(netip.ParsePrefix(node.Spec.PodCIDR))(t).Addr().Next().String()
		answersNode(t, node, "http://"+bridge+":"+port+"/", "hello from "+server.pod.Name)
		visitor.isRefused(t, "http://"+f.seenFrom(t, rome, bridge)+":"+port+"/")
	}
}

// providersReachEndpointsOnly sends requests from milan, a provider of rome, to rome. While rome trusts milan as a
// tenant, endpoints of reflected and exported Services and mapped addresses answer, and other pods do not. While it
// trusts milan as an owner of both clusters, all pods answer. Of a mapped address, other ports never answer.
func (f fabric) providersReachEndpointsOnly(t *testing.T) {
	e := exportsWeb(t)
	runs := func(name string) caller {
		spec := podSpec("serve")
		spec.Affinity = whereVirtual(corev1.NodeSelectorOpDoesNotExist)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"run": name}}, Spec: spec}
		must(rome.Kube.CoreV1().Pods(e.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		return caller{rome, podReady(t, rome, e.namespace, name)}
	}
	reflected, unselected := runs("reflected"), runs("unselected")
	serviceOf(t, e.offload, "reflected", map[string]string{"run": "reflected"}, "")
	others := []caller{unselected, onEachNode(t, rome)[0]}
	visitor := onEachNode(t, milan)[0]
	answers := func(to caller) {
		t.Helper()
		visitor.prints(t, "hello from "+to.pod.Name, "get", f.url(t, visitor, to))
	}
	node := realNodes(t, rome)[0]
	servesOnNode(t, rome, node.Name)
	mapped := f.mapsAddress(t, rome, nodeAddress(node), 8080)
	answersNode(t, node, "http://"+nodeAddress(node)+":10250/", "Client sent an HTTP request to an HTTPS server.")

	withEachTrust(t, func(t *testing.T, trust v1alpha1.PeeringTrust) {
		for _, other := range others {
			if trust == v1alpha1.TrustTenant {
				visitor.isRefused(t, f.url(t, visitor, other))
			} else {
				answers(other)
			}
		}
		answers(e.localPod)
		answers(reflected)
		e.remotePod.prints(t, "hello from local", "get", "http://web/")
		e.remotePod.prints(t, "hello from reflected", "get", "http://reflected:8080/")
		visitor.isAnswered(t, "http://"+mapped+":8080/", "hello from ")
		visitor.isRefused(t, "http://"+mapped+":10250/")
	})
}

// url returns the URL at which a pod reaches the tester in another pod of any cluster.
func (f fabric) url(t *testing.T, from, to caller) string {
	t.Helper()
	address := to.pod.Status.PodIP
	if from.cluster != to.cluster {
		address = f.seenFrom(t, from.cluster, address)
	}
	return "http://" + address + ":8080/"
}

// stricterTrustRefusesRunningPods runs a pod that a stricter trust refuses. The change of the trust returns a warning
// and causes events, and the pod keeps running until refused pods are evicted.
func stricterTrustRefusesRunningPods(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	runPod(t, o.namespace, "tolerating", spec)
	remote := podReady(t, milan, o.remote, "tolerating")
	warns := func(change, words string) {
		t.Helper()
		result := milan.Kubectl(t.Context(), "patch", "foreigncluster", "rome", "--type=merge", "--dry-run=server",
			"-p", `{"spec":`+change+`}`)
		if want := words + ": " + o.remote + "/tolerating"; result.Err != nil || !strings.Contains(result.Stderr, want) {
			t.Errorf("a dry run of %s prints no warning with %q: %q, %v", change, want, result.Stderr, result.Err)
		}
	}
	isReported := func(c *harness.Cluster, namespace, kind, words string) {
		t.Helper()
		eventually(t, soon, "an event RefusedByPolicy of the "+kind+" with "+words,
			func(ctx context.Context) (bool, string, error) {
				result := c.Kubectl(ctx, "get", "events", "-n", namespace, "--field-selector=reason=RefusedByPolicy,"+
					"involvedObject.name=tolerating,involvedObject.kind="+kind, "-o", "jsonpath={.items[*].message}")
				return strings.Contains(result.Stdout, words), result.Stdout, result.Err
			})
	}
	const field = "spec.incomingPolicy.pods.tolerations of ForeignCluster rome"

	warns(`{"trust":"Tenant"}`, "keep running and would be refused if the consumer created them again")
	trustsAsTenant(t)
	isReported(milan, o.remote, "ShadowPod", field)
	isReported(rome, o.namespace, "Pod", field)
	isPrinted(t, milan, "get shadowpod tolerating -n "+o.remote+
		` -o jsonpath={.status.conditions[?(@.type=="PodPermitted")].status}`, "False")
	podReady(t, rome, o.namespace, "tolerating")
	if now := podReady(t, milan, o.remote, "tolerating"); now.UID != remote.UID ||
		containerRun(now) != containerRun(remote) {
		t.Errorf("the refused pod was replaced or restarted: %s", podState(now))
	}

	warns(`{"incomingPolicy":{"refusedPods":"Evict"}}`, "are refused, so that they are evicted")
	patchesPeerOnMilan(t, `{"incomingPolicy":{"refusedPods":"Evict"}}`)
	podGone(t, milan, o.remote, "tolerating")
	podThat(t, rome, o.namespace, "tolerating", "be Failed with the reason RefusedByPolicy", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "RefusedByPolicy" &&
			strings.Contains(p.Status.Message, field)
	})
	podGone(t, milan, o.remote, "tolerating")
}

// trustFollowsThePage runs the commands of the page on trust.
func trustFollowsThePage(t *testing.T) {
	trustsAsTenant(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if result := milan.Kubectl(ctx, "delete", "peeringtoken", "paris"); result.Err != nil {
			t.Error(result.Err)
		}
	})
	o := offloaded(t, remoteOnly)
	printed := runsThePage(t, milan, "trust.md", "namespace: trial", "namespace: "+o.remote)
	for _, want := range []string{"SameOwner", `"name": "incomingPolicy.network"`, `"value": "Isolated"`} {
		if !strings.Contains(printed, want) {
			t.Errorf("the commands do not print %q, but\n%s", want, printed)
		}
	}
}

// reportsOnPod waits until an event of a pod on rome contains words.
func reportsOnPod(t *testing.T, namespace, name, words string) {
	t.Helper()
	eventually(t, soon, "an event on pod "+name+" with "+words, func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "events", "-n", namespace, "--field-selector=involvedObject.name="+name,
			"-o", "jsonpath={.items[*].message}")
		return strings.Contains(result.Stdout, words), result.Stdout, result.Err
	})
}
