// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/metrics"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	virtualkubelet "liqo.io/federation/controllers/virtualkubelet/app"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

const (
	consumerID, providerID = "7d1e4ab2-0c61-4b6e-9c55-0c4c64ef1f01", "0b7f9d3e-52a4-4b0b-8e0e-4f8e5a3c2d02"
	virtualNode            = "milan"
	nodeName               = "liqo-milan"
)

// offload has the namespaces of a consumer and of its provider, which are the same cluster. The
// virtual kubelet runs, and the test performs the parts of the provider's controllers and kubelets.
type offload struct {
	*framework.Environment
	federation                  versioned.Interface
	peer, tenant, local, remote string
	options                     *virtualkubelet.Options
	stop                        func()
}

func newOffload(t *testing.T) *offload {
	t.Helper()
	env := framework.Get(t)
	federation, err := versioned.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	o := &offload{
		Environment: env, federation: federation,
		peer: env.MakeNamespace(t), tenant: env.MakeNamespace(t), local: env.MakeNamespace(t), remote: env.MakeNamespace(t),
	}
	for _, namespace := range []string{o.local, o.remote} {
		if _, err := env.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	o.grant(t)
	o.negotiate(t)
	o.options = virtualkubelet.NewOptions()
	o.options.NodeName, o.options.NodeIP, o.options.Port = nodeName, "127.0.0.1", freePort(t)
	o.options.VirtualNode, o.options.Namespace, o.options.ForeignCluster = virtualNode, o.peer, "milan"
	o.options.ClusterID, o.options.RemoteClusterID, o.options.ConsumerName = consumerID, providerID, "rome"
	o.options.IdentityDir = o.identity(t)
	o.options.Dial = (&net.Dialer{}).DialContext
	o.options.Kubeconfig = o.kubeconfig(t)
	t.Cleanup(o.clean)
	return o
}

// grant binds the virtual kubelet's accounts on the consumer and on the provider to their roles in
// the chart.
func (o *offload) grant(t *testing.T) {
	o.Kubectl(t, o.Chart(t, "rbac-virtual-kubelet.yaml", "rbac-remote-namespace.yaml"), "apply", "-f", "-")
	bindings := o.Kube.RbacV1()
	if _, err := bindings.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "federation-virtual-kubelet-" + o.peer},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.peer,
			Name: "federation-virtual-kubelet"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-virtual-kubelet"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t)(bindings.RoleBindings(o.peer).Create(t.Context(), bindingOf("federation-virtual-kubelet-peer",
		rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + o.peer}),
		metav1.CreateOptions{}))
	if _, err := bindings.RoleBindings(o.remote).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "federation-remote-namespace"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: o.peer}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-remote-namespace"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.RoleBindings(o.local).Create(t.Context(), bindingOf("federation-reflection",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.peer, Name: "federation-virtual-kubelet"}),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.Grant(t, o.peer, o.tenant, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.SchemeGroupVersion.Group},
		Resources: []string{"resourceoffers"}, Verbs: []string{"get"}})
}

// negotiate creates the objects of a peering on both sides.
func (o *offload) negotiate(t *testing.T) {
	quantities := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	api := o.federation.FederationV1alpha1()
	_, err := api.ResourceOffers(o.tenant).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec:       v1alpha1.ResourceOfferSpec{ClusterID: providerID, Resources: quantities},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	virtual, err := api.VirtualNodes(o.peer).Create(t.Context(), &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: virtualNode},
		Spec: v1alpha1.VirtualNodeSpec{
			ClusterID: providerID, NodeName: nodeName, OfferName: "milan", OfferedNode: offeredNode, Resources: quantities,
			Labels: map[string]string{"topology.liqo.io/region": "it"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	virtual.Status.APIAccess = v1alpha1.APIAccessConsumer
	if _, err := api.VirtualNodes(o.peer).UpdateStatus(t.Context(), virtual, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	nm, err := api.NamespaceMaps(o.peer).Create(t.Context(), &v1alpha1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "rome"},
		Spec:       v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: o.local, RemoteName: o.remote}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nm.Status.Namespaces = []v1alpha1.NamespaceMappingStatus{{Name: o.local, RemoteName: o.remote,
		Phase: v1alpha1.NamespaceMappingReady}}
	if _, err := api.NamespaceMaps(o.peer).UpdateStatus(t.Context(), nm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// identity writes the files of an identity, as the controller of ForeignClusters does, and returns
// their directory.
func (o *offload) identity(t *testing.T) string {
	t.Helper()
	dir, config := t.TempDir(), o.User(t, o.peer, v1alpha1.PeerGroup)
	for name, content := range map[string][]byte{
		"tls.key": config.KeyData, "tls.crt": config.CertData, "ca.crt": config.CAData,
		"server": []byte(config.Host), "namespace": []byte(o.tenant),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (o *offload) kubeconfig(t *testing.T) string {
	t.Helper()
	path, config := filepath.Join(t.TempDir(), "kubeconfig"), o.ServiceAccount(t, o.peer, "federation-virtual-kubelet")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the virtual kubelet until it is stopped or the test ends.
func (o *offload) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- virtualkubelet.Run(ctx, o.options, metrics.NewKubeRegistry().Register)
	}()
	stopped := false
	o.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the virtual kubelet ended with %v", err)
		}
	}
	t.Cleanup(o.stop)
}

// setNetworkReady sets the condition NetworkReady of the consumer's VirtualNode.
func (o *offload) setNetworkReady(t *testing.T, status metav1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(
		`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test","message":"",`+
			`"lastTransitionTime":"2026-11-21T08:00:00Z"}]}}`,
		v1alpha1.ConditionNetworkReady, status)
	if _, err := o.federation.FederationV1alpha1().VirtualNodes(o.peer).Patch(t.Context(), virtualNode,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// clean deletes the cluster-scoped objects.
func (o *offload) clean() {
	ctx := context.Background()
	_ = o.Kube.CoreV1().Nodes().Delete(ctx, nodeName, metav1.DeleteOptions{})
	_ = o.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, "federation-virtual-kubelet-"+o.peer, metav1.DeleteOptions{})
}

// bind creates a local pod that is bound to the virtual node.
func (o *offload) bind(t *testing.T, namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	if change != nil {
		change(pod)
	}
	pod, err := o.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// make creates the remote pod of a ShadowPod, as the provider's controller does.
func (o *offload) make(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	shadow := o.shadow(t, name)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.remote, Name: name, Labels: shadow.Labels,
			Annotations: shadow.Annotations},
		Spec: shadow.Spec.Pod,
	}
	pod, err := o.Kube.CoreV1().Pods(o.remote).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// runs sets the status of a running pod with this number of restarts, as a kubelet does.
func (o *offload) runs(t *testing.T, pod *corev1.Pod, restarts int32) {
	t.Helper()
	now := metav1.Now()
	pod = pod.DeepCopy()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: "10.200.0.7", PodIPs: []corev1.PodIP{{IP: "10.200.0.7"}},
		QOSClass:   pod.Status.QOSClass,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", ContainerID: fmt.Sprintf("containerd://%s-%d", pod.UID, restarts), RestartCount: restarts, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	pod.ResourceVersion = ""
	if _, err := o.Kube.CoreV1().Pods(o.remote).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// shadow waits until the ShadowPod with this name exists, and returns it.
func (o *offload) shadow(t *testing.T, name string) (shadow *v1alpha1.ShadowPod) {
	t.Helper()
	until(t, "the shadow pod is created", func(ctx context.Context) (bool, error) {
		var err error
		shadow, err = o.federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, name, metav1.GetOptions{})
		return err == nil && shadow.DeletionTimestamp == nil, ignoreNotFound(err)
	})
	return shadow
}

// awaitPod waits until a local pod meets a condition.
func (o *offload) awaitPod(t *testing.T, namespace, name, what string, is func(*corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the pod is %+v", pod.Status)
		}
	}()
	until(t, what, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = o.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(pod), err
	})
	return pod
}

func (o *offload) awaitGone(t *testing.T, what string, get func(context.Context) error) {
	t.Helper()
	until(t, what, func(ctx context.Context) (bool, error) {
		err := get(ctx)
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// awaitLeaving waits until a ShadowPod is being deleted.
func (o *offload) awaitLeaving(t *testing.T, name string) {
	t.Helper()
	until(t, "shadow pod "+name+" is deleted", func(ctx context.Context) (bool, error) {
		shadow, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, name, metav1.GetOptions{})
		return err == nil && shadow.DeletionTimestamp != nil, err
	})
}

// release removes the finalizer of a ShadowPod that is being deleted, as the provider's controller
// does.
func (o *offload) release(t *testing.T, name string) {
	t.Helper()
	o.awaitLeaving(t, name)
	_, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
