// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// warned collects the warnings of responses.
type warned struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader records the text of a warning.
func (w *warned) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warned) contains(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.texts, func(one string) bool { return strings.Contains(one, text) })
}

// runningPod creates a pod that is bound to a node, and sets its phase to Running.
func (p peering) runningPod(t *testing.T, namespace, name, node string) *corev1.Pod {
	t.Helper()
	made := pod(nil)
	made.Name, made.Labels, made.Spec.NodeName = name, map[string]string{"app": "web"}, node
	made, err := p.kube.CoreV1().Pods(namespace).Create(t.Context(), made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Phase = corev1.PodRunning
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	made, err = p.kube.CoreV1().Pods(namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// allow sets the number of disruptions that a PodDisruptionBudget allows, as the disruption
// controller does.
func (p peering) allow(t *testing.T, budget *policyv1.PodDisruptionBudget, disruptions int32) {
	t.Helper()
	current, err := p.kube.PolicyV1().PodDisruptionBudgets(budget.Namespace).Get(t.Context(), budget.Name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: current.Generation, DisruptionsAllowed: disruptions,
		CurrentHealthy: 1, DesiredHealthy: 1 - disruptions, ExpectedPods: 1,
	}
	must(t)(p.kube.PolicyV1().PodDisruptionBudgets(budget.Namespace).UpdateStatus(t.Context(), current,
		metav1.UpdateOptions{}))
}

func (p peering) untilInPlace(t *testing.T, namespace, reason string) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	p.until(t, "the pods of "+namespace+" are "+reason, func(ctx context.Context) (bool, error) {
		status, err := p.phase(ctx, namespace)
		if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodsInPlace); condition != nil {
			found = *condition
		}
		return found.Reason == reason, err
	})
	return found
}

func (p peering) ending(ctx context.Context, pod *corev1.Pod) (bool, error) {
	current, err := p.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && !current.DeletionTimestamp.IsZero(), err
}

// budget creates a PodDisruptionBudget that allows no disruption of the pods in a namespace.
func (p *peering) budget(t *testing.T, namespace string) *policyv1.PodDisruptionBudget {
	t.Helper()
	budget, err := p.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.allow(t, budget, 0)
	return budget
}

func TestMisplacedPodsAreEvicted(t *testing.T) {
	p := newPeering(t, "ferrara")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	remoteNamespace := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, namespace, "default")
	offloaded := p.runningPod(t, namespace, "offloaded", naming.NodeName(p.cluster))
	local := p.runningPod(t, namespace, "local", "worker")
	budget := p.budget(t, namespace)
	p.untilInPlace(t, namespace, "InPlace")

	// With enforcement Warn, the misplaced pod is reported, and it keeps its remote namespace.
	var warnings warned
	config := rest.CopyConfig(p.env.Admin)
	config.WarningHandler = &warnings
	offloadings := versioned.NewForConfigOrDie(config).FederationV1alpha1().NamespaceOffloadings(namespace)
	patch := func(spec fields) {
		t.Helper()
		must(t)(offloadings.Patch(t.Context(), v1alpha1.NamespaceOffloadingName, types.MergePatchType,
			encode(fields{"spec": spec}), metav1.PatchOptions{}))
	}
	italy := fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region", "operator": "In",
		"values": []string{"it"}}}}}}
	patch(fields{"clusterSelector": italy})
	if !warnings.contains("leaves 1 pod(s)") {
		t.Errorf("the warnings are %q", warnings.texts)
	}
	if condition := p.untilInPlace(t, namespace, "Misplaced"); !strings.Contains(condition.Message, "1 pod(s)") {
		t.Errorf("the condition is %+v", condition)
	}
	p.until(t, "the remote namespace is reported as kept for its pods", func(ctx context.Context) (bool, error) {
		status, err := p.phase(ctx, namespace)
		if err != nil || len(status.Clusters) != 1 {
			return false, err
		}
		ready := meta.FindStatusCondition(status.Clusters[0].Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "PodsRemain", nil
	})
	if remote, err := p.kube.CoreV1().Namespaces().Get(t.Context(), remoteNamespace, metav1.GetOptions{}); err != nil ||
		!remote.DeletionTimestamp.IsZero() {
		t.Fatalf("the remote namespace is deleted before its pods: %+v, %v", remote, err)
	}

	// The verb returns the same warnings as an update of the NamespaceOffloading, and in a dry run
	// a plan.
	var byVerb warned
	config.WarningHandler = &byVerb
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	must(t)(versioned.NewForConfigOrDie(config).FederationV1alpha1().NamespaceOffloadings(namespace).PatchOffload(
		t.Context(), v1alpha1.NamespaceOffloadingName,
		types.MergePatchType, encode(fields{"spec": fields{"podOffloadingStrategy": "Remote"}}), dry))
	if !byVerb.contains("leaves 2 pod(s)") {
		t.Errorf("the warnings of the verb are %q", byVerb.texts)
	}
	plan, err := offloadings.PatchOffload(t.Context(), v1alpha1.NamespaceOffloadingName, types.MergePatchType,
		encode(fields{"spec": fields{"enforcement": "Evict"}}), dry)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Status.Plan; got.EvictedPods != 1 || got.MisplacedPodCount != 1 || len(got.MisplacedPods) != 1 ||
		got.MisplacedPods[0].Name != offloaded.Name || got.MisplacedPods[0].NodeName != offloaded.Spec.NodeName ||
		got.MisplacedPods[0].Action != v1alpha1.PlanDelete {
		t.Errorf("the plan is %+v", got)
	}

	// With enforcement Evict, the PodDisruptionBudget first prevents the eviction of the misplaced
	// pod.
	patch(fields{"enforcement": "Evict"})
	p.untilInPlace(t, namespace, "EvictionBlocked")
	if ending, err := p.ending(t.Context(), offloaded); err != nil || ending {
		t.Errorf("a pod is evicted against its budget, %v", err)
	}
	p.allow(t, budget, 1)
	p.until(t, "the pod is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, offloaded) })
	if remote, err := p.kube.CoreV1().Namespaces().Get(t.Context(), remoteNamespace, metav1.GetOptions{}); err != nil ||
		!remote.DeletionTimestamp.IsZero() {
		t.Fatalf("the remote namespace is deleted before its pods: %+v, %v", remote, err)
	}
	if err := killed(t.Context(), p.kube, offloaded); err != nil {
		t.Fatal(err)
	}
	p.untilDeleted(t, remoteNamespace)
	p.untilInPlace(t, namespace, "InPlace")
	p.untilPhase(t, namespace, v1alpha1.OffloadingNoClusterSelected)

	// With strategy Remote, local pods are misplaced.
	if ending, err := p.ending(t.Context(), local); err != nil || ending {
		t.Errorf("a pod that is in place is evicted, %v", err)
	}
	p.allow(t, budget, 1)
	patch(fields{"clusterSelector": nil, "podOffloadingStrategy": "Remote"})
	p.until(t, "the local pod is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, local) })
	if err := killed(t.Context(), p.kube, local); err != nil {
		t.Fatal(err)
	}
	p.untilInPlace(t, namespace, "InPlace")

	// A change of a node's labels can misplace pods, too.
	patch(fields{
		"clusterSelector": fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region",
			"operator": "In", "values": []string{"fr"}}}}}}})
	p.untilPhase(t, namespace, v1alpha1.OffloadingReady)
	moved := p.runningPod(t, namespace, "moved", naming.NodeName(p.cluster))
	p.allow(t, budget, 1)
	p.labelNode(t, "it")
	p.until(t, "the pod on a node with changed labels is evicted",
		func(ctx context.Context) (bool, error) { return p.ending(ctx, moved) })
	if err := killed(t.Context(), p.kube, moved); err != nil {
		t.Fatal(err)
	}
	p.untilDeleted(t, remoteNamespace)
	if err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(),
		v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestPodsAreEvictedWithinTheirBudgets(t *testing.T) {
	p := newPeering(t, "modena")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	remoteNamespace := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, namespace, "default")
	made := p.runningPod(t, namespace, "made", naming.NodeName(p.cluster))
	made = p.ownedBy(t, made, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web",
		Controller: ptr.To(true)})
	alone := p.runningPod(t, namespace, "alone", naming.NodeName(p.cluster))
	budget := p.budget(t, namespace)

	if err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(),
		v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if condition := p.untilInPlace(t, namespace, "EvictionBlocked"); !strings.Contains(condition.Message, "1 pod(s)") {
		t.Errorf("the condition is %+v", condition)
	}
	p.until(t, "the pod without a controller is deleted",
		func(ctx context.Context) (bool, error) { return p.ending(ctx, alone) })
	if ending, err := p.ending(t.Context(), made); err != nil || ending {
		t.Errorf("a pod is evicted against its budget, %v", err)
	}
	if err := killed(t.Context(), p.kube, alone); err != nil {
		t.Fatal(err)
	}
	p.allow(t, budget, 1)
	p.until(t, "the pod is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, made) })
	evicted, err := p.kube.CoreV1().Pods(namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(evicted.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == "EvictionByEvictionAPI"
	}) {
		t.Errorf("the pod ends otherwise than by eviction: %+v", evicted.Status.Conditions)
	}
	p.untilInPlace(t, namespace, "Ending")
	if remote, err := p.kube.CoreV1().Namespaces().Get(t.Context(), remoteNamespace, metav1.GetOptions{}); err != nil ||
		!remote.DeletionTimestamp.IsZero() {
		t.Fatalf("the remote namespace is deleted before its pods: %+v, %v", remote, err)
	}
	if err := killed(t.Context(), p.kube, made); err != nil {
		t.Fatal(err)
	}
	p.untilDeleted(t, remoteNamespace)
	p.until(t, "the offloading is gone", func(ctx context.Context) (bool, error) {
		_, err := p.phase(ctx, namespace)
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

// ownedBy sets a controller as the owner of a pod.
func (p peering) ownedBy(t *testing.T, pod *corev1.Pod, owner metav1.OwnerReference) *corev1.Pod {
	t.Helper()
	owned, err := p.kube.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType,
		encode(fields{"metadata": fields{"ownerReferences": []metav1.OwnerReference{owner}}}), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return owned
}

func TestNamespacesOfTheFederationAreNeverOffloaded(t *testing.T) {
	env := framework.Get(t)
	client := admin(t).FederationV1alpha1()
	for name, role := range map[string]string{"liqo-peer-cuneo": v1alpha1.RolePeer,
		"liqo-tenant-cuneo": v1alpha1.RoleTenant, "web-of-cuneo": v1alpha1.RoleRemoteNamespace} {
		must(t)(env.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelForeignCluster: "cuneo", v1alpha1.LabelRole: role},
		}}, metav1.CreateOptions{}))
		_, err := client.NamespaceOffloadings(name).CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName,
			&v1alpha1.Offload{}, metav1.CreateOptions{})
		refusedInWords(t, err, "is a "+role+" namespace of the federation and cannot be offloaded")
		_, err = client.NamespaceOffloadings(name).Create(t.Context(),
			&v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}},
			metav1.CreateOptions{})
		refusedInWords(t, err, "is a "+role+" namespace of the federation and cannot be offloaded")
	}
}

func refusedInWords(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want a refusal with %q", err, words)
	}
}
