// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/harness"
)

// moveFault is a fault that is caused during a move, and the phases in which the move may then end.
type moveFault struct {
	name string
	// at has the phases in which the fault is caused, in a separate move each.
	at []v1alpha1.MovePhase
	do func(*moving, *testing.T)
	// ends does not hold for the phases in endsOnlyAs.
	ends []v1alpha1.MovePhase
}

var (
	// everyPhase has the phases of a move that has not ended, in their order.
	everyPhase = []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy,
		v1alpha1.MoveSwitching, v1alpha1.MoveReleasing, v1alpha1.MoveCleaning, v1alpha1.MoveRollingBack,
	}
	// withSender and withReceiver have the phases in which the move has this mover. The phases Switching and RollingBack
	// begin with its deletion.
	withSender = []v1alpha1.MovePhase{
		v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy, v1alpha1.MoveSwitching,
		v1alpha1.MoveRollingBack,
	}
	withReceiver = slices.Concat(everyPhase[:1], withSender)

	succeeded = []v1alpha1.MovePhase{v1alpha1.MoveSucceeded}
	// eitherWay is for faults after which a move may succeed or be rolled back.
	eitherWay = []v1alpha1.MovePhase{v1alpha1.MoveSucceeded, v1alpha1.MoveFailed}

	// endsOnlyAs has the phases after which a move can end in one way only, whatever happens. Each takes milliseconds,
	// so the move is held in it until the fault was caused.
	endsOnlyAs = map[v1alpha1.MovePhase][]v1alpha1.MovePhase{
		v1alpha1.MoveReleasing:   succeeded,
		v1alpha1.MoveCleaning:    succeeded,
		v1alpha1.MoveRollingBack: {v1alpha1.MoveCancelled},
	}
)

var moveFaults = []moveFault{
	{"nothing happens", everyPhase[:1], func(*moving, *testing.T) {}, succeeded},
	{"the sender is deleted", withSender, func(m *moving, t *testing.T) { m.deletesMover(t, "sender") }, eitherWay},
	{"the receiver is deleted", withReceiver, func(m *moving, t *testing.T) { m.deletesMover(t, "receiver") }, eitherWay},
	{"the move is cancelled", everyPhase, (*moving).cancels,
		[]v1alpha1.MovePhase{v1alpha1.MoveSucceeded, v1alpha1.MoveCancelled}},
	{"the pod is deleted", everyPhase[1:2], (*moving).deletesPod, succeeded},
	{"a pod names its node", everyPhase, (*moving).placesPod, succeeded},
	{"the controller manager is killed", everyPhase[1:], killsControllerManager, succeeded},
	{"the virtual kubelet is killed", everyPhase[1:2], func(_ *moving, t *testing.T) {
		killOnce(t, rome, virtualKubelet(t), "federation-virtual-kubelet")
	}, succeeded},
	{"the gateway is deleted", everyPhase[1:2], func(_ *moving, t *testing.T) { endsActiveGateway(t, rome) }, succeeded},
	{"the gateway is killed", everyPhase[1:2], func(_ *moving, t *testing.T) {
		killOnce(t, rome, gatewayOn(t, must(activeGateway(t.Context(), rome))(t)), "federation-gateway")
	}, succeeded},
	{"the kubelets of rome are killed", everyPhase, func(_ *moving, t *testing.T) { restartsKubelets(t, rome) }, eitherWay},
	{"the kubelets of milan are killed", everyPhase, func(_ *moving, t *testing.T) { restartsKubelets(t, milan) }, eitherWay},
	{"the clusters are cut off for two minutes", everyPhase[1:2], func(m *moving, t *testing.T) {
		cut(t)
		err := harness.Consistently(t.Context(), 2*outage, "rome has the volume",
			func(ctx context.Context) (bool, string, error) {
				v, err := rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace).Get(ctx, movedClaim, metav1.GetOptions{})
				return err == nil && v.Status.Phase != v1alpha1.VirtualVolumeLost, show(v.Status), err
			})
		if err != nil {
			t.Error(err)
		}
		if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
			t.Fatal(err)
		}
	}, eitherWay},
}

// movesSurviveFaults causes each fault in each phase of a move of one volume between the clusters. Each move must
// either succeed, or be rolled back with the source unchanged. No acknowledged line may be lost.
func (f fabric) movesSurviveFaults(t *testing.T) {
	grantsStorage(t, "4Gi")
	m := startsMoving(t, nil)
	for _, fault := range moveFaults {
		for _, phase := range fault.at {
			t.Run(fault.name+" at "+string(phase), func(t *testing.T) {
				ends, short := endsOnlyAs[phase]
				continues := func() {}
				if short {
					continues = holds(t, phase)
				} else {
					ends = fault.ends
				}
				id := m.starts(t, v1alpha1.MoveSpec{Bandwidth: slow()})
				if phase == v1alpha1.MoveRollingBack {
					m.reachesPhase(t, id, v1alpha1.MoveLocking)
					m.cancels(t)
				}
				if reached := m.reachesPhase(t, id, phase); reached != phase {
					t.Errorf("the move is in phase %s already", reached)
				}
				fault.do(m, t)
				if reached := m.progress(t).Phase; short && reached != phase {
					t.Errorf("after the fault, the move is in phase %s", reached)
				}
				continues()
				progress := m.ends(t, id)
				if !slices.Contains(ends, progress.Phase) {
					t.Errorf("the move ended as %s", show(progress))
				}
				t.Logf("%s after %s, downtime %d ms: %s", progress.Phase,
					progress.CompletionTime.Sub(progress.StartTime.Time), ptr.Deref(progress.DowntimeMilliseconds, -1),
					progress.Message)
				m.isWhole(t)
			})
		}
	}
	for name, spec := range map[string]v1alpha1.MoveSpec{
		"offline":    {Strategy: v1alpha1.MoveOffline},
		"full check": {Verify: v1alpha1.VerifyFull},
	} {
		t.Run(name, func(t *testing.T) {
			if progress := m.ends(t, m.starts(t, spec)); progress.Phase != v1alpha1.MoveSucceeded {
				t.Errorf("the move ended as %s", show(progress))
			}
			m.isWhole(t)
		})
	}
}

// holds makes the API server of rome refuse the request that ends a phase, until the returned function is called or the
// test ends: in the phase Releasing, the one that removes a scheduling gate, otherwise the one that removes the
// annotation of the move from a PersistentVolume. The controller manager retries refused requests.
func holds(t *testing.T, phase v1alpha1.MovePhase) (continues func()) {
	t.Helper()
	const name = "e2e-holds-moves"
	resource := "persistentvolumes"
	expression := "!(variables.annotation in variables.before) || variables.annotation in variables.after"
	if phase == v1alpha1.MoveReleasing {
		resource = "pods"
		expression = "!has(oldObject.spec.schedulingGates) || has(object.spec.schedulingGates)"
	}
	updates := admissionregistrationv1.NamedRuleWithOperations{}
	updates.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	updates.APIGroups, updates.APIVersions, updates.Resources = []string{""}, []string{"v1"}, []string{resource}
	policies := rome.Kube.AdmissionregistrationV1()
	must(policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{updates},
			},
			Variables: []admissionregistrationv1.Variable{
				{Name: "annotation", Expression: strconv.Quote(volume.LabelMove)},
				{Name: "before", Expression: "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"},
				{Name: "after", Expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: expression, Message: "the test holds the move"}},
		},
	}, metav1.CreateOptions{}))(t)
	continues = sync.OnceFunc(func() {
		if err := policies.ValidatingAdmissionPolicies().Delete(context.WithoutCancel(t.Context()), name,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(continues)
	bindings := policies.ValidatingAdmissionPolicyBindings()
	must(bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := bindings.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return continues
}

// killsControllerManager kills the controller manager of rome. When the test ends, it deletes the pod, because the
// kubelet would wait longer before it starts the container of this pod again.
func killsControllerManager(_ *moving, t *testing.T) {
	const program = "federation-controller-manager"
	pod := componentPod(t, rome, program)
	killOnce(t, rome, pod, program)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		for _, command := range [][]string{
			{"delete", "pod", pod.Name, "-n", pod.Namespace},
			{"rollout", "status", "deployment", program, "-n", pod.Namespace},
		} {
			if err := rome.Kubectl(ctx, command...).Err; err != nil {
				t.Error(err)
			}
		}
	})
}

// deletesPod deletes the pod that mounts the moved claim.
func (m *moving) deletesPod(t *testing.T) {
	t.Helper()
	kubectl(t, rome, "delete", "pod", movedPod, "-n", m.namespace, "--wait=false")
}

// placesPod creates a pod that mounts the moved claim and names its node, so that it bypasses the
// scheduler and its gates. Admission may refuse the pod.
func (m *moving) placesPod(t *testing.T) {
	t.Helper()
	spec := podSpec("serve")
	spec.NodeName = "rome-worker-1"
	mountsMovedClaim(&spec)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "placed"}, Spec: spec}
	_, err := rome.Kube.CoreV1().Pods(m.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := rome.Kubectl(ctx, "delete", "pod", "placed", "-n", m.namespace, "--ignore-not-found",
			"--timeout=110s").Err; err != nil {
			t.Error(err)
		}
	})
}

// mountsMovedClaim makes the first container mount the moved claim at /data.
func mountsMovedClaim(spec *corev1.PodSpec) {
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: movedClaim},
	}}}
}

// restartsKubelets kills all kubelets of a cluster, and starts them again.
func restartsKubelets(t *testing.T, c *harness.Cluster) {
	t.Helper()
	if err := playground.Restart(t.Context(), c.Name, "kubelet"); err != nil {
		t.Fatal(err)
	}
}

// endedPodsDoNotHoldMoves moves a claim that the completed pod of a Job mounts as well. After the
// Job and the StatefulSet are deleted, neither cluster may have a claim.
func (f fabric) endedPodsDoNotHoldMoves(t *testing.T) {
	grantsStorage(t, "4Gi")
	m := startsMoving(t, func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
	})
	spec := podSpec("ls", "/data")
	spec.RestartPolicy = corev1.RestartPolicyNever
	mountsMovedClaim(&spec)
	must(rome.Kube.BatchV1().Jobs(m.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{}))(t)
	kubectl(t, rome, "wait", "job/report", "-n", m.namespace, "--for=condition=Complete", "--timeout=110s")
	if progress := m.ends(t, m.starts(t, v1alpha1.MoveSpec{})); progress.Phase != v1alpha1.MoveSucceeded {
		t.Errorf("the move ended as %s", show(progress))
	}
	kubectl(t, rome, "delete", "job", "report", "-n", m.namespace, "--timeout=110s")
	m.isWhole(t)
	m.writer.stop()
	kubectl(t, rome, "delete", "statefulset", "db", "-n", m.namespace, "--timeout=110s")
	isPrinted(t, rome, "get pvc -n "+m.namespace+" -o name", "")
	isPrinted(t, milan, "get shvc,pvc -n "+m.remote+" -o name", "")
}

// movesEndWithTheirNamespace deletes the namespace of a move while data is copied. For a second
// move, it deletes only the claim.
func (f fabric) movesEndWithTheirNamespace(t *testing.T) {
	grantsStorage(t, "4Gi")
	m := startsMoving(t, nil)
	m.reachesPhase(t, m.starts(t, v1alpha1.MoveSpec{Bandwidth: slow()}), v1alpha1.MoveCopying)
	m.writer.stop()
	kubectl(t, rome, "delete", "namespace", m.namespace, "--timeout=110s")
	isPrinted(t, milan, "get namespace "+m.remote+" --ignore-not-found -o name", "")

	m = startsMoving(t, nil)
	id := m.starts(t, v1alpha1.MoveSpec{Bandwidth: slow()})
	m.reachesPhase(t, id, v1alpha1.MoveCopying)
	m.writer.stop()
	kubectl(t, rome, "delete", "pvc", movedClaim, "-n", m.namespace, "--wait=false")
	if progress := m.ends(t, id); progress.Phase != v1alpha1.MoveFailed || !strings.Contains(progress.Message, "deleted") {
		t.Errorf("the move ended as %s", show(progress))
	}
	isPrinted(t, rome, "get pods -n "+m.namespace+" -o jsonpath={.items[*].metadata.name}", movedPod)
}
