// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
	"liqo.io/federation/test/placements"
)

// peering is a cluster that is its own provider. The test performs the parts of the replicator, the
// kubelet, and the controllers of quotas and namespaces.
type peering struct {
	env        *framework.Environment
	kube       kubernetes.Interface
	federation versioned.Interface
	cluster    string
	user       string
}

func newPeering(t *testing.T, cluster string) peering {
	t.Helper()
	env := framework.Get(t)
	kube, federation := clients(t, env)
	p := peering{env: env, kube: kube, federation: federation, cluster: cluster, user: "user-of-" + cluster}
	env.Kubectl(t, env.Chart(t, "rbac-remote-namespace.yaml"), "apply", "-f", "-")

	must(t)(federation.FederationV1alpha1().ForeignClusters().Create(t.Context(), &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: cluster},
		Spec: v1alpha1.ForeignClusterSpec{
			ClusterID: thatID, Server: "https://192.0.2.1:6443",
			Outgoing: v1alpha1.PeeringEnabled, Incoming: v1alpha1.PeeringEnabled,
		},
	}, metav1.CreateOptions{}))
	for name, role := range map[string]string{naming.TenantNamespace(cluster): v1alpha1.RoleTenant,
		naming.PeerNamespace(cluster): v1alpha1.RolePeer} {
		must(t)(kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelForeignCluster: cluster, v1alpha1.LabelRole: role},
		}}, metav1.CreateOptions{}))
	}
	must(t)(federation.FederationV1alpha1().ResourceOffers(naming.TenantNamespace(cluster)).Create(t.Context(),
		&v1alpha1.ResourceOffer{
			ObjectMeta: metav1.ObjectMeta{Name: framework.ClusterName},
			Spec: v1alpha1.ResourceOfferSpec{ClusterID: thisID,
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"),
					corev1.ResourcePods: resource.MustParse("2")}},
		}, metav1.CreateOptions{}))
	accept(t, federation, naming.TenantNamespace(cluster), framework.ClusterName)
	must(t)(kube.RbacV1().RoleBindings(naming.TenantNamespace(cluster)).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "federation-tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p.user}},
	}, metav1.CreateOptions{}))
	must(t)(federation.FederationV1alpha1().VirtualNodes(naming.PeerNamespace(cluster)).Create(t.Context(),
		&v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: cluster},
			Spec: v1alpha1.VirtualNodeSpec{
				ClusterID: thatID, NodeName: naming.NodeName(cluster),
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			},
		}, metav1.CreateOptions{}))
	must(t)(kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   naming.NodeName(cluster),
		Labels: map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode, "region": "fr"},
	}}, metav1.CreateOptions{}))
	// Other tests must not use the virtual node of this one.
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := federation.FederationV1alpha1().VirtualNodes(naming.PeerNamespace(cluster)).Delete(ctx, cluster,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	runOffloading(t, env)
	return p
}

// must returns a function that fails the test if a call failed. It ignores the result of the call.
func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// replicate copies the spec of the consumer's NamespaceMap to the provider's, and the status back,
// as the replicator does.
func (p peering) replicate(ctx context.Context) error {
	maps := p.federation.FederationV1alpha1()
	local, err := maps.NamespaceMaps(naming.PeerNamespace(p.cluster)).Get(ctx, framework.ClusterName, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	tenant := maps.NamespaceMaps(naming.TenantNamespace(p.cluster))
	remote, err := tenant.Get(ctx, framework.ClusterName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = tenant.Create(ctx, &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: framework.ClusterName},
			Spec: local.Spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	remote.Spec = local.Spec
	if remote, err = tenant.Update(ctx, remote, metav1.UpdateOptions{}); err != nil {
		return ignoreConflict(err)
	}
	local.Status = remote.Status
	_, err = maps.NamespaceMaps(local.Namespace).UpdateStatus(ctx, local, metav1.UpdateOptions{})
	return ignoreConflict(err)
}

// enforceQuotas sets the status of all ResourceQuotas. Without one, kube-apiserver admits no pod in
// their namespaces.
func (p peering) enforceQuotas(ctx context.Context) error {
	quotas, err := p.kube.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: v1alpha1.LabelForeignCluster + "=" + p.cluster})
	if err != nil {
		return err
	}
	for _, quota := range quotas.Items {
		if equality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) {
			continue
		}
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{}
		for name := range quota.Spec.Hard {
			quota.Status.Used[name] = resource.Quantity{}
		}
		if _, err := p.kube.CoreV1().ResourceQuotas(quota.Namespace).UpdateStatus(ctx, &quota,
			metav1.UpdateOptions{}); ignoreConflict(err) != nil {
			return err
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// until waits until check returns true. Before each check it calls replicate and enforceQuotas.
func (p peering) until(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	until(t, what, func(ctx context.Context) (bool, error) {
		if err := p.replicate(ctx); err != nil {
			return false, err
		}
		if err := p.enforceQuotas(ctx); err != nil {
			return false, err
		}
		return check(ctx)
	})
}

func (p peering) offload(t *testing.T, spec v1alpha1.NamespaceOffloadingSpec) string {
	t.Helper()
	namespace := p.env.MakeNamespace(t)
	must(t)(p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Create(t.Context(),
		&v1alpha1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}, Spec: spec,
		}, metav1.CreateOptions{}))
	return namespace
}

func (p peering) phase(ctx context.Context, namespace string) (v1alpha1.NamespaceOffloadingStatus, error) {
	offloading, err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Get(ctx,
		v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		return v1alpha1.NamespaceOffloadingStatus{}, err
	}
	return offloading.Status, nil
}

func (p peering) untilPhase(t *testing.T, namespace string,
	phase v1alpha1.OffloadingPhase) v1alpha1.NamespaceOffloadingStatus {
	t.Helper()
	var status v1alpha1.NamespaceOffloadingStatus
	p.until(t, "namespace "+namespace+" is "+string(phase), func(ctx context.Context) (bool, error) {
		var err error
		status, err = p.phase(ctx, namespace)
		return status.Phase == phase, err
	})
	return status
}

func (p peering) labelNode(t *testing.T, region string) {
	t.Helper()
	must(t)(p.kube.CoreV1().Nodes().Patch(t.Context(), naming.NodeName(p.cluster), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"region":"`+region+`"}}}`), metav1.PatchOptions{}))
}

// finalizeNamespace removes the finalizers of a terminating namespace, as the namespace controller
// does. It reports whether the namespace is deleted.
func (p peering) finalizeNamespace(ctx context.Context, name string) (bool, error) {
	namespace, err := p.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil || namespace.DeletionTimestamp.IsZero() {
		return false, err
	}
	namespace.Spec.Finalizers = nil
	_, err = p.kube.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
	return false, ignoreNotFound(err)
}

// untilDeleted waits until a namespace is deleted, and removes its finalizers when it is terminating.
func (p peering) untilDeleted(t *testing.T, namespace string) {
	t.Helper()
	p.until(t, "namespace "+namespace+" is deleted", func(ctx context.Context) (bool, error) {
		return p.finalizeNamespace(ctx, namespace)
	})
}

func TestNamespaceIsOffloadedAndUnoffloaded(t *testing.T) {
	p := newPeering(t, "verona")
	italy := corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{placements.Expressions(placements.In("region", "it"))}}
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{ClusterSelector: italy})
	status := p.untilPhase(t, namespace, v1alpha1.OffloadingNoClusterSelected)
	remoteNamespace := naming.UniqueRemoteNamespace(namespace, framework.ClusterName, thisID)
	if status.RemoteNamespaceName != remoteNamespace {
		t.Errorf("the remote namespace is %s, want %s", status.RemoteNamespaceName, remoteNamespace)
	}
	offloaded, err := p.kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || offloaded.Labels[v1alpha1.LabelSchedulingEnabled] != "true" {
		t.Errorf("labels %v, %v", offloaded.Labels, err)
	}

	// The region label of the virtual node changes.
	p.labelNode(t, "it")
	status = p.untilPhase(t, namespace, v1alpha1.OffloadingReady)
	if len(status.Clusters) != 1 || !meta.IsStatusConditionTrue(status.Clusters[0].Conditions, v1alpha1.ConditionReady) ||
		!meta.IsStatusConditionTrue(status.Clusters[0].Conditions, v1alpha1.ConditionOffloadingRequired) {
		t.Errorf("clusters: %+v", status.Clusters)
	}
	created, err := p.kube.CoreV1().Namespaces().Get(t.Context(), remoteNamespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: "verona",
		v1alpha1.LabelOrigin: thatID, v1alpha1.LabelDestination: thisID,
		"pod-security.kubernetes.io/enforce": "baseline",
	} {
		if created.Labels[label] != want {
			t.Errorf("label %s of the remote namespace is %q, want %q", label, created.Labels[label], want)
		}
	}
	binding, err := p.kube.RbacV1().RoleBindings(remoteNamespace).Get(t.Context(), "federation-remote-namespace",
		metav1.GetOptions{})
	if err != nil || len(binding.Subjects) != 1 || binding.Subjects[0].Name != p.user {
		t.Errorf("the consumer has no role in its remote namespace: %+v, %v", binding, err)
	}

	// This pod represents a remote pod, which the provider's scheduler and a virtual kubelet would
	// create.
	p.env.ServiceAccount(t, namespace, "default")
	p.env.ServiceAccount(t, remoteNamespace, "default")
	local := pod(nil)
	local.Spec.NodeName = naming.NodeName(p.cluster)
	local, err = p.kube.CoreV1().Pods(namespace).Create(t.Context(), local, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	must(t)(p.federation.FederationV1alpha1().ShadowPods(remoteNamespace).Create(t.Context(), &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{v1alpha1.LabelOrigin: thatID}},
		Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}},
		}},
	}, metav1.CreateOptions{}))
	var remote *corev1.Pod
	p.until(t, "the remote pod is created", func(ctx context.Context) (bool, error) {
		remote, err = p.kube.CoreV1().Pods(remoteNamespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})

	// Unoffloading deletes the pods first, then the remote namespace, and at last the finalizer of
	// the NamespaceOffloading.
	if err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(),
		v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the local pod is deleted", func(ctx context.Context) (bool, error) {
		current, err := p.kube.CoreV1().Pods(namespace).Get(ctx, local.Name, metav1.GetOptions{})
		return err == nil && !current.DeletionTimestamp.IsZero(), err
	})
	p.untilPhase(t, namespace, v1alpha1.OffloadingTerminating)
	if m, err := p.federation.FederationV1alpha1().NamespaceMaps(naming.PeerNamespace(p.cluster)).Get(t.Context(),
		framework.ClusterName, metav1.GetOptions{}); err != nil || len(m.Spec.Namespaces) != 1 {
		t.Errorf("the mapping was deleted before the pods: %+v, %v", m.Spec, err)
	}
	if err := killed(t.Context(), p.kube, local); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the remote pods are deleted", func(ctx context.Context) (bool, error) {
		_, err := p.kube.CoreV1().Pods(remoteNamespace).Get(ctx, remote.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	p.untilDeleted(t, remoteNamespace)
	p.until(t, "the offloading is gone", func(ctx context.Context) (bool, error) {
		_, err := p.phase(ctx, namespace)
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	offloaded, err = p.kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if _, labelled := offloaded.Labels[v1alpha1.LabelSchedulingEnabled]; err != nil || labelled {
		t.Errorf("the namespace keeps its label: %v, %v", offloaded.Labels, err)
	}
}

func TestRemoteNamespaceTeardownOrder(t *testing.T) {
	p := newPeering(t, "padova")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	remoteNamespace := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, remoteNamespace, "default")
	running := pod(nil)
	running.Spec.NodeName = "somewhere"
	running.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	running, err := p.kube.CoreV1().Pods(remoteNamespace).Create(t.Context(), running, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The provider ends the incoming peering.
	must(t)(p.federation.FederationV1alpha1().ForeignClusters().Patch(t.Context(), p.cluster, types.MergePatchType,
		[]byte(`{"spec":{"incoming":"Disabled"}}`), metav1.PatchOptions{}))
	p.until(t, "the pod is deleted", func(ctx context.Context) (bool, error) {
		current, err := p.kube.CoreV1().Pods(remoteNamespace).Get(ctx, running.Name, metav1.GetOptions{})
		return err == nil && !current.DeletionTimestamp.IsZero(), err
	})
	// While the pod runs, its remote namespace stays, and with it the consumer's binding.
	for range 3 {
		created, err := p.kube.CoreV1().Namespaces().Get(t.Context(), remoteNamespace, metav1.GetOptions{})
		if err != nil || !created.DeletionTimestamp.IsZero() {
			t.Fatalf("the namespace is deleted before its pods: %v, %v", created.DeletionTimestamp, err)
		}
		must(t)(p.kube.RbacV1().RoleBindings(remoteNamespace).Get(t.Context(), "federation-remote-namespace",
			metav1.GetOptions{}))
	}
	if err := killed(t.Context(), p.kube, running); err != nil {
		t.Fatal(err)
	}
	p.untilDeleted(t, remoteNamespace)
}

func TestNamespaceOfTheProviderIsNeverARemoteNamespace(t *testing.T) {
	p := newPeering(t, "vicenza")
	// A namespace that does not belong to the product has the name of the requested remote
	// namespace.
	conflicting := p.offload(t, v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName})
	status := p.untilPhase(t, conflicting, v1alpha1.OffloadingAllFailed)
	condition := meta.FindStatusCondition(status.Clusters[0].Conditions, v1alpha1.ConditionReady)
	if condition == nil || condition.Reason != string(v1alpha1.NamespaceMappingConflict) || condition.Message == "" {
		t.Errorf("the conflict is reported as %+v", condition)
	}
	namespace, err := p.kube.CoreV1().Namespaces().Get(t.Context(), conflicting, metav1.GetOptions{})
	if err != nil || namespace.Labels[v1alpha1.LabelRole] != "" {
		t.Errorf("the namespace was adopted: %v, %v", namespace.Labels, err)
	}
	if _, err := p.kube.RbacV1().RoleBindings(conflicting).Get(t.Context(), "federation-remote-namespace",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the consumer has a role in a namespace of the provider: %v", err)
	}

	// Requests of a peer for names of system namespaces are refused.
	tenant := p.federation.FederationV1alpha1().NamespaceMaps(naming.TenantNamespace(p.cluster))
	must(t)(tenant.Create(t.Context(), &v1alpha1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "greedy"},
		Spec: v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{
			{Name: "a", RemoteName: "kube-system"}, {Name: "b", RemoteName: "liqo"}, {Name: "c", RemoteName: "liqo-tenant-venice"},
			{Name: "d", RemoteName: "com"},
		}},
	}, metav1.CreateOptions{}))
	until(t, "the mappings are refused", func(ctx context.Context) (bool, error) {
		m, err := tenant.Get(ctx, "greedy", metav1.GetOptions{})
		return err == nil && len(m.Status.Namespaces) == 4 && !slices.ContainsFunc(m.Status.Namespaces,
			func(answer v1alpha1.NamespaceMappingStatus) bool {
				return answer.Phase != v1alpha1.NamespaceMappingRefused
			}), err
	})
}

func TestAPeerRunsNoMoreThanItIsOffered(t *testing.T) {
	p := newPeering(t, "treviso")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	remoteNamespace := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, remoteNamespace, "default")
	shadows := p.federation.FederationV1alpha1().ShadowPods(remoteNamespace)
	for _, one := range []struct{ name, cpu string }{{"small", "100m"}, {"huge", "900m"}, {"tiny", "100m"}} {
		shadow := &v1alpha1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Name: one.name, Labels: map[string]string{v1alpha1.LabelOrigin: thatID}},
			Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{
					Name: "web", Image: "example.com/web",
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(one.cpu)}},
				}},
			}},
		}
		_, err := shadows.Create(t.Context(), shadow, metav1.CreateOptions{})
		if one.name != "tiny" {
			// These pods together use the whole quota.
			must(t)(nil, err)
			p.untilPod(t, remoteNamespace, one.name)
			continue
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cpu: 100m requested, 1 of 1 granted used, 0 left") {
			t.Errorf("the pod beyond the quota is answered with: %v", err)
		}
	}

	// When an offer is withdrawn, its part of the quota is no longer available.
	offers := p.federation.FederationV1alpha1().ResourceOffers(naming.TenantNamespace(p.cluster))
	must(t)(offers.Patch(t.Context(), framework.ClusterName, types.MergePatchType, []byte(`{"spec":{"withdrawn":true}}`),
		metav1.PatchOptions{}))
	p.until(t, "the quota follows the offer", func(ctx context.Context) (bool, error) {
		quota, err := p.kube.CoreV1().ResourceQuotas(remoteNamespace).Get(ctx, naming.RemoteNamespaceQuota,
			metav1.GetOptions{})
		pods := quota.Spec.Hard[corev1.ResourcePods]
		return err == nil && len(quota.Spec.Hard) == 1 && pods.IsZero(), err
	})
}

func (p peering) untilPod(t *testing.T, namespace, name string) {
	t.Helper()
	p.until(t, "pod "+name+" is created", func(ctx context.Context) (bool, error) {
		_, err := p.kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}
