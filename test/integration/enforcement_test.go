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

// warned collects what the server warns of.
type warned struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader keeps the text.
func (w *warned) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warned) says(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.texts, func(one string) bool { return strings.Contains(one, text) })
}

// runningPod makes a pod that runs on a node, as its kubelet says.
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

// allow sets how many disruptions a budget allows, as the controller of
// budgets does.
func (p peering) allow(t *testing.T, budget *policyv1.PodDisruptionBudget, disruptions int32) {
	t.Helper()
	current, err := p.kube.PolicyV1().PodDisruptionBudgets(budget.Namespace).Get(t.Context(), budget.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: current.Generation, DisruptionsAllowed: disruptions,
		CurrentHealthy: 1, DesiredHealthy: 1 - disruptions, ExpectedPods: 1,
	}
	must(t)(p.kube.PolicyV1().PodDisruptionBudgets(budget.Namespace).UpdateStatus(t.Context(), current, metav1.UpdateOptions{}))
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

// budget makes a PodDisruptionBudget that allows nothing yet.
func (p *peering) budget(t *testing.T, namespace string) *policyv1.PodDisruptionBudget {
	t.Helper()
	budget, err := p.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.allow(t, budget, 0)
	return budget
}

func TestPodsThatMayNoLongerRunThereAreMoved(t *testing.T) {
	p := newPeering(t, "ferrara")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	twin := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, namespace, "default")
	away := p.runningPod(t, namespace, "away", naming.NodeName(p.cluster))
	here := p.runningPod(t, namespace, "here", "worker")
	budget := p.budget(t, namespace)
	p.untilInPlace(t, namespace, "InPlace")

	// The pod in France is told of, and stays with its twin.
	var warnings warned
	config := rest.CopyConfig(p.env.Admin)
	config.WarningHandler = &warnings
	offloadings := versioned.NewForConfigOrDie(config).FederationV1alpha1().NamespaceOffloadings(namespace)
	patch := func(spec fields) {
		t.Helper()
		must(t)(offloadings.Patch(t.Context(), v1alpha1.NamespaceOffloadingName, types.MergePatchType, encode(fields{"spec": spec}), metav1.PatchOptions{}))
	}
	italy := fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region", "operator": "In", "values": []string{"it"}}}}}}
	patch(fields{"clusterSelector": italy})
	if !warnings.says("leaves 1 pod(s)") {
		t.Errorf("the warnings are %q", warnings.texts)
	}
	if told := p.untilInPlace(t, namespace, "Misplaced"); !strings.Contains(told.Message, "1 pod(s)") {
		t.Errorf("the condition is %+v", told)
	}
	p.until(t, "the twin is known to stay for its pods", func(ctx context.Context) (bool, error) {
		status, err := p.phase(ctx, namespace)
		if err != nil || len(status.Clusters) != 1 {
			return false, err
		}
		ready := meta.FindStatusCondition(status.Clusters[0].Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "PodsRemain", nil
	})
	if there, err := p.kube.CoreV1().Namespaces().Get(t.Context(), twin, metav1.GetOptions{}); err != nil || !there.DeletionTimestamp.IsZero() {
		t.Fatalf("the twin goes while a pod is there: %+v, %v", there, err)
	}

	// The verb warns as the main resource does, and its plan says what enforcing
	// would do.
	var byVerb warned
	config.WarningHandler = &byVerb
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	must(t)(versioned.NewForConfigOrDie(config).FederationV1alpha1().NamespaceOffloadings(namespace).PatchOffload(t.Context(), v1alpha1.NamespaceOffloadingName,
		types.MergePatchType, encode(fields{"spec": fields{"podOffloadingStrategy": "Remote"}}), dry))
	if !byVerb.says("leaves 2 pod(s)") {
		t.Errorf("the warnings of the verb are %q", byVerb.texts)
	}
	plan, err := offloadings.PatchOffload(t.Context(), v1alpha1.NamespaceOffloadingName, types.MergePatchType,
		encode(fields{"spec": fields{"enforcement": "Evict"}}), dry)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Status.Plan; got.EvictedPods != 1 || got.MisplacedPodCount != 1 || len(got.MisplacedPods) != 1 ||
		got.MisplacedPods[0].Name != away.Name || got.MisplacedPods[0].NodeName != away.Spec.NodeName || got.MisplacedPods[0].Action != v1alpha1.PlanDelete {
		t.Errorf("the plan is %+v", got)
	}

	// It is to go, and its budget holds it.
	patch(fields{"enforcement": "Evict"})
	p.untilInPlace(t, namespace, "EvictionBlocked")
	if ending, err := p.ending(t.Context(), away); err != nil || ending {
		t.Errorf("a pod goes although its budget does not allow it, %v", err)
	}
	p.allow(t, budget, 1)
	p.until(t, "the pod is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, away) })
	if there, err := p.kube.CoreV1().Namespaces().Get(t.Context(), twin, metav1.GetOptions{}); err != nil || !there.DeletionTimestamp.IsZero() {
		t.Fatalf("the twin goes while a pod is ending there: %+v, %v", there, err)
	}
	if err := killed(t.Context(), p.kube, away); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the twin is gone", func(ctx context.Context) (bool, error) { return p.buried(ctx, twin) })
	p.untilInPlace(t, namespace, "InPlace")
	p.untilPhase(t, namespace, v1alpha1.OffloadingNoClusterSelected)

	// The other way round: what runs here has to go there.
	if ending, err := p.ending(t.Context(), here); err != nil || ending {
		t.Errorf("a pod that may stay goes, %v", err)
	}
	p.allow(t, budget, 1)
	patch(fields{"clusterSelector": nil, "podOffloadingStrategy": "Remote"})
	p.until(t, "the pod that runs here is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, here) })
	if err := killed(t.Context(), p.kube, here); err != nil {
		t.Fatal(err)
	}
	p.untilInPlace(t, namespace, "InPlace")

	// A node's labels count as much as the spec.
	patch(fields{"clusterSelector": fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region", "operator": "In", "values": []string{"fr"}}}}}}})
	p.untilPhase(t, namespace, v1alpha1.OffloadingReady)
	moved := p.runningPod(t, namespace, "moved", naming.NodeName(p.cluster))
	p.allow(t, budget, 1)
	p.labelNode(t, "it")
	p.until(t, "the pod on a node that moved is evicted", func(ctx context.Context) (bool, error) { return p.ending(ctx, moved) })
	if err := killed(t.Context(), p.kube, moved); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the twin is gone once more", func(ctx context.Context) (bool, error) { return p.buried(ctx, twin) })
	if err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestPodsComeHomeAsTheirBudgetsAllow(t *testing.T) {
	p := newPeering(t, "modena")
	namespace := p.offload(t, v1alpha1.NamespaceOffloadingSpec{})
	twin := p.untilPhase(t, namespace, v1alpha1.OffloadingReady).RemoteNamespaceName
	p.env.ServiceAccount(t, namespace, "default")
	made := p.runningPod(t, namespace, "made", naming.NodeName(p.cluster))
	made = p.ownedBy(t, made, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)})
	alone := p.runningPod(t, namespace, "alone", naming.NodeName(p.cluster))
	budget := p.budget(t, namespace)

	if err := p.federation.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if told := p.untilInPlace(t, namespace, "EvictionBlocked"); !strings.Contains(told.Message, "1 pod(s)") {
		t.Errorf("the condition is %+v", told)
	}
	p.until(t, "the pod that nobody makes again is deleted", func(ctx context.Context) (bool, error) { return p.ending(ctx, alone) })
	if ending, err := p.ending(t.Context(), made); err != nil || ending {
		t.Errorf("a pod goes although its budget does not allow it, %v", err)
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
	if there, err := p.kube.CoreV1().Namespaces().Get(t.Context(), twin, metav1.GetOptions{}); err != nil || !there.DeletionTimestamp.IsZero() {
		t.Fatalf("the twin goes while a pod is ending there: %+v, %v", there, err)
	}
	if err := killed(t.Context(), p.kube, made); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the twin is gone", func(ctx context.Context) (bool, error) { return p.buried(ctx, twin) })
	p.until(t, "the offloading is gone", func(ctx context.Context) (bool, error) {
		_, err := p.phase(ctx, namespace)
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

// ownedBy gives a pod to somebody.
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
	for name, role := range map[string]string{"liqo-peer-cuneo": v1alpha1.RolePeer, "liqo-tenant-cuneo": v1alpha1.RoleTenant, "web-of-cuneo": v1alpha1.RoleRemoteNamespace} {
		must(t)(env.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelForeignCluster: "cuneo", v1alpha1.LabelRole: role},
		}}, metav1.CreateOptions{}))
		_, err := client.NamespaceOffloadings(name).CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{}, metav1.CreateOptions{})
		refusedInWords(t, err, "is a "+role+" namespace of the federation and cannot be offloaded")
		_, err = client.NamespaceOffloadings(name).Create(t.Context(), &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}}, metav1.CreateOptions{})
		refusedInWords(t, err, "is a "+role+" namespace of the federation and cannot be offloaded")
	}
}

func refusedInWords(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("a refusal that says %q is expected, not %v", words, err)
	}
}
