// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/test/integration/framework"
)

func TestVirtualKubelet(t *testing.T) {
	o := newOffload(t)
	o.start(t)
	t.Run("its node is ready, and follows the VirtualNode", o.testNode)
	t.Run("a running remote pod makes the local pod ready with one write", o.testRunning)
	t.Run("a local pod has an address that the network permits", o.testAddress)
	t.Run("a lost remote pod is recreated", o.testRecreated)
	t.Run("a deleted pod is removed after its remote pod", o.testDeleted)
	t.Run("a finished pod stays finished", o.testFinished)
	t.Run("a pod of a namespace that is not offloaded waits", o.testNotOffloaded)
	t.Run("a refusal of the provider is reported", o.testRefused)
	t.Run("a restart only repairs drift", o.testRestart)
	t.Run("a pod beyond the quota is reported, and retried", o.testGranted)
	t.Run("of two for one node one is active, and the other one takes over", o.testTwo)
	o.stop()
	t.Run("it is standby during an outage of the local API, and active afterwards", o.testOutage)
}

func (o *offload) testTwo(t *testing.T) {
	holder := func() string {
		lease, err := o.Kube.CoordinationV1().Leases(o.peer).Get(t.Context(), naming.VirtualKubelet(virtualNode),
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Name != virtualNode {
			t.Errorf("the lease is owned by %v", lease.OwnerReferences)
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	portOfFirst := freePort(t)
	o.options.Port = portOfFirst
	o.start(t)
	until(t, "the first is active", func(ctx context.Context) (bool, error) { return o.nodePort(ctx) == portOfFirst, nil })
	first, stopFirst := holder(), o.stop
	second := *o.options
	second.Port = freePort(t)
	o.options = &second
	o.start(t)
	// A standby virtual kubelet is ready when its caches are synced.
	until(t, "the second one is ready", func(ctx context.Context) (bool, error) {
		return o.ready(ctx, second.Port)
	})
	if got := o.nodePort(t.Context()); got != portOfFirst || holder() != first {
		t.Errorf("the node is at port %d and not at %d, and its lease is %s's and not %s's", got, portOfFirst,
			holder(), first)
	}
	o.bind(t, o.local, "standby", nil)
	o.shadow(t, "standby")

	stopFirst()
	until(t, "the second one has taken over",
		func(ctx context.Context) (bool, error) { return o.nodePort(ctx) == second.Port, nil })
	if got := holder(); got == first || got == "" {
		t.Errorf("the lease is %q's", got)
	}
}

// nodePort returns the port of the active virtual kubelet that its Node states; 0 if there is none.
func (o *offload) nodePort(ctx context.Context) int32 {
	node, err := o.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return 0
	}
	return node.Status.DaemonEndpoints.KubeletEndpoint.Port
}

// testOutage makes a virtual kubelet lose its Lease during an outage of the API.
func (o *offload) testOutage(t *testing.T) {
	proxy := o.StartProxy(t)
	config, err := clientcmd.LoadFromFile(o.options.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.ProxyURL = framework.AdvertisedServer, proxy.AddressURL(t)
	}
	options := *o.options
	options.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, options.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	options.Port = freePort(t)
	o.options = &options
	o.start(t)
	// A virtual kubelet that cannot write the first status of its Node ends, and is started again by its Deployment.
	until(t, "it is active", func(ctx context.Context) (bool, error) { return o.nodePort(ctx) == options.Port, nil })
	o.bind(t, o.local, "before-outage", nil)
	o.shadow(t, "before-outage")

	proxy.Refuse(http.StatusServiceUnavailable)
	proxy.Cut()
	until(t, "another virtual kubelet could have the lease", func(ctx context.Context) (bool, error) {
		lease, err := o.Kube.CoordinationV1().Leases(o.peer).Get(ctx, naming.VirtualKubelet(virtualNode), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return time.Since(lease.Spec.RenewTime.Time) > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, nil
	})
	o.bind(t, o.local, "during-outage", nil)
	until(t, "its probes are answered", func(ctx context.Context) (bool, error) {
		return o.answers(ctx, options.Port, "livez")
	})
	proxy.Refuse(0)
	o.shadow(t, "during-outage")
}

// ready reports whether the virtual kubelet at a port is ready.
func (o *offload) ready(ctx context.Context, port int32) (bool, error) {
	return o.answers(ctx, port, "readyz")
}

// answers reports whether the virtual kubelet at a port passes a probe.
func (o *offload) answers(ctx context.Context, port int32, probe string) (bool, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d/%s", port, probe), nil)
	if err != nil {
		return false, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return false, nil // it does not listen yet
	}
	return answer.StatusCode == http.StatusOK, answer.Body.Close()
}

func (o *offload) testNode(t *testing.T) {
	var node *corev1.Node
	until(t, "the node is ready", func(ctx context.Context) (bool, error) {
		var err error
		node, err = o.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && len(node.Status.Conditions) > 0 && node.Status.Conditions[0].Status == corev1.ConditionTrue,
			ignoreNotFound(err)
	})
	if got := node.Labels["topology.liqo.io/region"]; got != "it" {
		t.Errorf("region %q, want the offer's", got)
	}
	if len(node.Spec.Taints) == 0 || node.Spec.Taints[0].Key != v1alpha1.TaintVirtualNode {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	until(t, "the node has a lease", func(ctx context.Context) (bool, error) {
		_, err := o.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})

	vn, err := o.federation.FederationV1alpha1().VirtualNodes(o.peer).Get(t.Context(), virtualNode, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	vn.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("6")
	vn.Spec.Labels = map[string]string{"topology.liqo.io/region": "fr"}
	if _, err := o.federation.FederationV1alpha1().VirtualNodes(o.peer).Update(t.Context(), vn,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the node has the new resources and labels", func(ctx context.Context) (bool, error) {
		node, err := o.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && node.Status.Allocatable.Cpu().String() == "6" &&
			node.Labels["topology.liqo.io/region"] == "fr", err
	})
	if err := o.Kube.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "a deleted node is recreated", func(ctx context.Context) (bool, error) {
		_, err := o.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}

func (o *offload) testRunning(t *testing.T) {
	bound := o.bind(t, o.local, "running", nil)
	changes, err := o.Kube.CoreV1().Pods(o.local).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=running", ResourceVersion: bound.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	o.runs(t, o.make(t, "running"), 0)
	pod := o.awaitPod(t, o.local, "running", "the pod is ready", isReady)
	// Without a network, the address on the provider has no meaning in the local cluster.
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP != "" || pod.Status.HostIP != "127.0.0.1" {
		t.Errorf("phase %s, pod IP %s, host IP %s", pod.Status.Phase, pod.Status.PodIP, pod.Status.HostIP)
	}
	writes := 0
	for event := range changes.ResultChan() {
		if event.Type == watch.Modified {
			writes++
		}
		if event.Object.(*corev1.Pod).ResourceVersion == pod.ResourceVersion {
			break
		}
	}
	if writes != 1 {
		t.Errorf("%d writes to the pod from bound to ready, want 1", writes)
	}
}

// testAddress changes the network of the pod that testRunning leaves.
func (o *offload) testAddress(t *testing.T) {
	services := v1alpha1.ClusterRange{
		Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12", Source: v1alpha1.SourceServiceCIDR,
	}
	pods := v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: "10.200.0.0/16", Source: v1alpha1.SourceNode}
	publishRanges(t, o.federation, services)
	setRanges := func(ranges ...v1alpha1.ClusterRange) {
		infos := o.federation.FederationV1alpha1().ClusterInfos()
		info := must2[*v1alpha1.ClusterInfo](t)(infos.Get(t.Context(), v1alpha1.ClusterInfoName, metav1.GetOptions{}))
		info.Status.Ranges = ranges
		must(t)(infos.UpdateStatus(t.Context(), info, metav1.UpdateOptions{}))
	}
	for _, step := range []struct {
		name    string
		change  func()
		address string
	}{
		{"a flat network", func() { o.setNetworkReady(t, metav1.ConditionTrue) }, "10.200.0.7"},
		{"a range of the local cluster", func() { setRanges(pods, services) }, ""},
		{"a range of the provider", func() { setRanges(services) }, "10.200.0.7"},
		{"no network", func() { o.setNetworkReady(t, metav1.ConditionFalse) }, ""},
	} {
		step.change()
		o.awaitPod(t, o.local, "running", step.name, func(pod *corev1.Pod) bool {
			return isReady(pod) && pod.Status.PodIP == step.address && (step.address != "") == (len(pod.Status.PodIPs) == 1)
		})
	}
}

func (o *offload) testRecreated(t *testing.T) {
	o.bind(t, o.local, "lost", nil)
	first := o.make(t, "lost")
	o.runs(t, first, 1)
	o.awaitPod(t, o.local, "lost", "the pod is ready", isReady)

	zero := metav1.NewDeleteOptions(0)
	if err := o.Kube.CoreV1().Pods(o.remote).Delete(t.Context(), "lost", *zero); err != nil {
		t.Fatal(err)
	}
	o.awaitPod(t, o.local, "lost", "the pod is not ready while it is gone", func(pod *corev1.Pod) bool {
		return !isReady(pod) && pod.Status.Phase == corev1.PodRunning
	})
	o.runs(t, o.make(t, "lost"), 0)
	o.awaitPod(t, o.local, "lost", "the pod was restarted twice", func(pod *corev1.Pod) bool {
		return isReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 2
	})

	shadow := o.shadow(t, "lost")
	if err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Delete(t.Context(), "lost",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.release(t, "lost")
	until(t, "another shadow pod is created", func(ctx context.Context) (bool, error) {
		now, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, "lost", metav1.GetOptions{})
		return err == nil && now.UID != shadow.UID, ignoreNotFound(err)
	})
}

func (o *offload) testDeleted(t *testing.T) {
	o.bind(t, o.local, "deleted", nil)
	o.runs(t, o.make(t, "deleted"), 0)
	o.awaitPod(t, o.local, "deleted", "the pod is ready", isReady)
	if err := o.Kube.CoreV1().Pods(o.local).Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitLeaving(t, "deleted")
	pod, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "deleted", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		t.Fatalf("the local pod was removed before the provider's: %v", err)
	}
	if err := o.Kube.CoreV1().Pods(o.remote).Delete(t.Context(), "deleted", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	o.release(t, "deleted")
	o.awaitGone(t, "the local pod is gone", func(ctx context.Context) error {
		_, err := o.Kube.CoreV1().Pods(o.local).Get(ctx, "deleted", metav1.GetOptions{})
		return err
	})
}

func (o *offload) testFinished(t *testing.T) {
	o.bind(t, o.local, "finished", func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever })
	remote := o.make(t, "finished")
	o.runs(t, remote, 0)
	o.awaitPod(t, o.local, "finished", "the pod is ready", isReady)
	shadow := o.shadow(t, "finished")
	shadow.Status.Phase = corev1.PodSucceeded
	if _, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).UpdateStatus(t.Context(), shadow,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := o.awaitPod(t, o.local, "finished", "the pod has succeeded", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded && !isReady(pod)
	})
	if err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Delete(t.Context(), "finished",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.release(t, "finished")
	// When the later pod is offloaded, the finished one was reconciled before.
	o.bind(t, o.local, "after", nil)
	o.shadow(t, "after")
	if _, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Get(t.Context(), "finished",
		metav1.GetOptions{}); ignoreNotFound(err) != nil || err == nil {
		t.Errorf("the shadow pod of a finished pod was recreated: %v", err)
	}
	now, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "finished", metav1.GetOptions{})
	if err != nil || now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("the finished pod was written again: %v", err)
	}
}

func (o *offload) testNotOffloaded(t *testing.T) {
	otherNamespace := o.MakeNamespace(t)
	if _, err := o.Kube.CoreV1().ServiceAccounts(otherNamespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.bind(t, otherNamespace, "waits", nil)
	pod := o.awaitPod(t, otherNamespace, "waits", "the pod reports why it waits", func(pod *corev1.Pod) bool {
		return pod.Status.Reason == v1alpha1.ReasonOffloadingBackOff
	})
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s, want Pending", pod.Status.Phase)
	}
	if err := o.Kube.CoreV1().Pods(otherNamespace).Delete(t.Context(), "waits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitGone(t, "it can be deleted", func(ctx context.Context) error {
		_, err := o.Kube.CoreV1().Pods(otherNamespace).Get(ctx, "waits", metav1.GetOptions{})
		return err
	})
}

func (o *offload) testRefused(t *testing.T) {
	o.bind(t, o.local, "refused", func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "root",
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	})
	pod := o.awaitPod(t, o.local, "refused", "the pod reports why it is refused", func(pod *corev1.Pod) bool {
		return pod.Status.Reason == "ProviderRefused"
	})
	if pod.Status.Phase != corev1.PodPending || pod.Status.Message == "" {
		t.Errorf("phase %s, message %q", pod.Status.Phase, pod.Status.Message)
	}
}

// testGranted makes the namespace a remote namespace of a consumer whose quota is one GPU.
func (o *offload) testGranted(t *testing.T) {
	o.start(t)
	label := func(role string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s,%q:%q}}}`, v1alpha1.LabelRole, role,
			v1alpha1.LabelForeignCluster, o.remote)
		must(t)(o.Kube.CoreV1().Namespaces().Patch(t.Context(), o.remote, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}))
	}
	label(`"twin"`)
	defer label("null")
	grant(t, o.Environment, o.federation, o.remote, amounts("pods", "100", "example.com/gpu", "1"))
	isHeldToItsGrant(t, o)

	gpu := func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = amounts("example.com/gpu", "1") }
	o.bind(t, o.local, "first", gpu)
	o.shadow(t, "first")
	o.bind(t, o.local, "second", gpu)
	pod := o.awaitPod(t, o.local, "second", "the pod reports why it waits", func(pod *corev1.Pod) bool {
		return pod.Status.Reason == "QuotaExceeded"
	})
	if pod.Status.Phase != corev1.PodPending ||
		!strings.Contains(pod.Status.Message, "example.com/gpu: 1 requested, 1 of 1 granted used, 0 left") {
		t.Errorf("phase %s, message %q", pod.Status.Phase, pod.Status.Message)
	}
	until(t, "an event reports it, too", func(ctx context.Context) (bool, error) {
		events, err := o.Kube.CoreV1().Events(o.local).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=QuotaExceeded,involvedObject.name=second"})
		return err == nil && len(events.Items) > 0, err
	})

	// The pod is retried, and fits into the quota when the other pod is deleted.
	if err := o.Kube.CoreV1().Pods(o.local).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.release(t, "first")
	o.shadow(t, "second")
}

func (o *offload) testRestart(t *testing.T) {
	kept := o.bind(t, o.local, "kept", nil)
	o.runs(t, o.make(t, "kept"), 0)
	o.awaitPod(t, o.local, "kept", "the pod is ready", isReady)
	before := o.shadow(t, "kept")
	o.bind(t, o.local, "forced", nil)
	o.shadow(t, "forced")

	o.stop()
	shadows := o.federation.FederationV1alpha1().ShadowPods(o.remote)
	foreign := before.DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Name: "foreign", Labels: map[string]string{}, Annotations: before.Annotations}
	for key, value := range before.Labels {
		foreign.Labels[key] = value
	}
	foreign.Labels[v1alpha1.LabelVirtualNode] = "liqo-milan-2"
	if _, err := shadows.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := o.Kube.CoreV1().Pods(o.local).Delete(t.Context(), "forced", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	meanwhile := o.bind(t, o.local, "meanwhile", nil)
	o.start(t)

	if got := o.shadow(t, "meanwhile").Annotations[v1alpha1.AnnotationOriginUID]; got != string(meanwhile.UID) {
		t.Errorf("the shadow pod has the origin %s, want %s", got, meanwhile.UID)
	}
	// A ShadowPod whose local pod was deleted by force is deleted, too.
	o.release(t, "forced")
	if _, err := shadows.Get(t.Context(), "foreign", metav1.GetOptions{}); err != nil {
		t.Errorf("the shadow pod of another virtual node was changed: %v", err)
	}
	if after := o.shadow(t, "kept"); after.UID != before.UID {
		t.Error("the shadow pod was recreated")
	}
	now, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || now.UID != kept.UID || !isReady(now) {
		t.Errorf("the pod was changed: %v", err)
	}
}

// isHeldToItsGrant waits until the federation API server refuses a ShadowPod beyond the quota. The
// server observes the label of the namespace with a delay.
func isHeldToItsGrant(t *testing.T, o *offload) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			spec := shadowPodSpec()
			spec.Containers[0].Resources.Requests = amounts("cpu", "2")
			_, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Create(ctx, &v1alpha1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1alpha1.ShadowPodSpec{Pod: spec},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if ctx.Err() == nil {
				last = err
			}
			return apierrors.IsForbidden(err), nil
		})
	if err != nil {
		t.Fatalf("more is created than the quota allows: %v; the last answer was: %v", err, last)
	}
}
