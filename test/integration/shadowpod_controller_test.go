// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// stage is a remote namespace with the controllers that create pods from ShadowPods.
type stage struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	namespace  string
}

func newStage(t *testing.T) stage {
	t.Helper()
	env := framework.Get(t)
	kube, federation := clients(t, env)
	s := stage{kube: kube, federation: federation, namespace: env.MakeNamespace(t)}
	grant(t, env, federation, s.namespace, amounts("pods", "100"))
	patch := `{"metadata":{"labels":{"` + v1alpha1.LabelRole + `":"twin","` + v1alpha1.LabelForeignCluster + `":"` +
		s.namespace + `","` + v1alpha1.LabelOrigin + `":"` + thatID + `","` + v1alpha1.LabelDestination + `":"` +
		thisID + `"}}}`
	if _, err := kube.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	env.ServiceAccount(t, s.namespace, "default")
	// The controllers have only the permissions of the chart.
	controllers := "controllers-of-" + s.namespace
	for _, role := range roles(t, env.Chart(t, "rbac-remote-namespace.yaml")) {
		switch role.Metadata.Name {
		case "federation-offloading":
			env.Grant(t, controllers, "", role.Rules...)
		case "federation-remote-namespace-manager":
			env.Grant(t, controllers, s.namespace, role.Rules...)
		}
	}
	runShadows(t, env.User(t, controllers))
	return s
}

// now returns the options of a deletion without a grace period, of exactly this object.
func now(object metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
		Preconditions: metav1.NewUIDPreconditions(string(object.GetUID()))}
}

func (s stage) post(t *testing.T, name string, policy corev1.RestartPolicy) *v1alpha1.ShadowPod {
	t.Helper()
	shadow, err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Create(t.Context(), &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"app": name, v1alpha1.LabelOrigin: "other-origin"},
			Annotations: map[string]string{v1alpha1.AnnotationOriginUID: "uid-of-" + name},
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
			RestartPolicy:                policy,
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: "main", Image: "example.com/one"}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return shadow
}

func (s stage) shadow(t *testing.T, name string) *v1alpha1.ShadowPod {
	t.Helper()
	shadow, err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return shadow
}

// pod waits until a pod with this name exists whose UID is not one of others, and returns it.
func (s stage) pod(t *testing.T, name string, others ...types.UID) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	until(t, "pod "+name+" exists", func(ctx context.Context) (bool, error) {
		var err error
		pod, err = s.kube.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && !slices.Contains(others, pod.UID), err
	})
	return pod
}

// end sets the status of a pod to a terminal phase, as its kubelet does.
func (s stage) end(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase, reason string) {
	t.Helper()
	pod.Status.Phase, pod.Status.Reason = phase, reason
	if _, err := s.kube.CoreV1().Pods(s.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s stage) bind(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	err := s.kube.CoreV1().Pods(s.namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "somewhere"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s stage) ended(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	until(t, "shadow pod "+name+" has ended", func(context.Context) (bool, error) {
		shadow := s.shadow(t, name)
		return shadow.Status.Phase == phase && shadow.Status.Pod != nil && shadow.Status.Pod.Phase == phase, nil
	})
}

func TestRemotePodHasNoIdentityOfTheProvider(t *testing.T) {
	s := newStage(t)
	shadow := s.post(t, "web", corev1.RestartPolicyAlways)
	pod := s.pod(t, "web")
	if !metav1.IsControlledBy(pod, shadow) {
		t.Errorf("owned by %+v", pod.OwnerReferences)
	}
	if pod.Labels["app"] != "web" || pod.Annotations[v1alpha1.AnnotationOriginUID] != "uid-of-web" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	if pod.Labels[v1alpha1.LabelOrigin] != thatID || pod.Labels[v1alpha1.LabelDestination] != thisID {
		t.Errorf("the pod has the origin %q and the destination %q", pod.Labels[v1alpha1.LabelOrigin],
			pod.Labels[v1alpha1.LabelDestination])
	}
	if ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) || ptr.Deref(pod.Spec.EnableServiceLinks, true) ||
		pod.Spec.ServiceAccountName != "default" {
		t.Errorf("the pod has an identity: %+v", pod.Spec)
	}
	if len(pod.Spec.Volumes) > 0 {
		t.Errorf("volumes were added: %+v", pod.Spec.Volumes)
	}
	if len(s.shadow(t, "web").Status.Conditions) > 0 {
		t.Error("the status was written without an error")
	}
}

func TestPodPrefersTheOfferedNode(t *testing.T) {
	s := newStage(t)
	must(t)(s.federation.FederationV1alpha1().ShadowPods(s.namespace).Create(t.Context(), &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1alpha1.ShadowPodSpec{OfferedNode: offeredNode, Pod: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: "main", Image: "example.com/one"}},
		}},
	}, metav1.CreateOptions{}))
	affinity := s.pod(t, "web").Spec.Affinity.NodeAffinity
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions
	preferred := affinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchFields
	if len(required) != 1 || required[0].Key != corev1.LabelTopologyZone || required[0].Values[0] != "north" {
		t.Errorf("the required affinity is %v", required)
	}
	if len(preferred) != 1 || preferred[0].Values[0] != "worker" {
		t.Errorf("the preferred affinity is %v", preferred)
	}
}

func TestLostPodRunsAgain(t *testing.T) {
	s := newStage(t)
	s.post(t, "web", corev1.RestartPolicyAlways)
	first := s.pod(t, "web")
	if err := killed(t.Context(), s.kube, first); err != nil {
		t.Fatal(err)
	}
	second := s.pod(t, "web", first.UID)
	s.bind(t, second)
	s.end(t, s.pod(t, "web", first.UID), corev1.PodFailed, "Evicted")
	third := s.pod(t, "web", first.UID, second.UID)
	if third.Status.Phase == corev1.PodFailed {
		t.Errorf("the new pod is %+v", third.Status)
	}
	if phase := s.shadow(t, "web").Status.Phase; phase != "" {
		t.Errorf("a pod that runs for ever has ended: %s", phase)
	}
}

func TestFinishedPodNeverRunsAgain(t *testing.T) {
	s := newStage(t)
	for name, phase := range map[string]corev1.PodPhase{"job": corev1.PodSucceeded, "broken-job": corev1.PodFailed} {
		t.Run(name, func(t *testing.T) {
			s.post(t, name, corev1.RestartPolicyNever)
			pod := s.pod(t, name)
			s.end(t, pod, phase, "")
			// The pod is deleted before the controller can observe that it has terminated.
			if err := s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), name, now(pod)); err != nil {
				t.Fatal(err)
			}
			s.ended(t, name, phase)
			until(t, "the pod is gone", func(ctx context.Context) (bool, error) {
				_, err := s.kube.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
			// When the later ShadowPod has a pod, the earlier one was reconciled before.
			later := name + "-later"
			s.post(t, later, corev1.RestartPolicyNever)
			s.pod(t, later)
			if pod, err := s.kube.CoreV1().Pods(s.namespace).Get(t.Context(), name,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the finished pod runs again: %v, %v", pod.Status.Phase, err)
			}
		})
	}
}

func TestShadowPodIsDeletedAfterItsPod(t *testing.T) {
	s := newStage(t)
	for _, test := range []struct {
		name   string
		policy corev1.RestartPolicy
		bound  bool
		grace  *int64
		// seconds is the grace period of the remote pod. kept is true if the ShadowPod must remain
		// to report how the pod ended.
		seconds int64
		kept    bool
	}{
		{"web", corev1.RestartPolicyAlways, true, nil, 30, false},
		{"hurried-web", corev1.RestartPolicyAlways, true, ptr.To[int64](7), 7, false},
		{"job", corev1.RestartPolicyNever, true, nil, 30, true},
		{"patient-job", corev1.RestartPolicyOnFailure, true, ptr.To[int64](90), 90, true},
		{"waiting-job", corev1.RestartPolicyNever, false, nil, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.post(t, test.name, test.policy)
			pod := s.pod(t, test.name)
			if test.bound {
				s.bind(t, pod)
			}
			shadows := s.federation.FederationV1alpha1().ShadowPods(s.namespace)
			if err := shadows.Delete(t.Context(), test.name, metav1.DeleteOptions{GracePeriodSeconds: test.grace}); err != nil {
				t.Fatal(err)
			}
			gone := func(ctx context.Context) (bool, error) {
				_, err := shadows.Get(ctx, test.name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			}
			if !test.bound {
				until(t, "the shadow pod of a pod that never ran is gone", gone)
				return
			}
			until(t, "the pod is deleted", func(ctx context.Context) (bool, error) {
				current, err := s.kube.CoreV1().Pods(s.namespace).Get(ctx, test.name, metav1.GetOptions{})
				if err != nil || current.DeletionTimestamp.IsZero() {
					return false, err
				}
				if got := ptr.Deref(current.DeletionGracePeriodSeconds, 0); got != test.seconds {
					t.Errorf("the pod has %d seconds to end, want %d", got, test.seconds)
				}
				return true, nil
			})
			if s.shadow(t, test.name).DeletionTimestamp.IsZero() {
				t.Error("the shadow pod is not being deleted")
			}
			// A kubelet reports the terminal phase before it deletes the pod.
			s.end(t, s.pod(t, test.name), corev1.PodSucceeded, "")
			if err := killed(t.Context(), s.kube, pod); err != nil {
				t.Fatal(err)
			}
			if test.kept {
				s.ended(t, test.name, corev1.PodSucceeded)
				until(t, "the pod is gone", func(ctx context.Context) (bool, error) {
					_, err := s.kube.CoreV1().Pods(s.namespace).Get(ctx, test.name, metav1.GetOptions{})
					return apierrors.IsNotFound(err), nil
				})
				until(t, "the time to observe its end is short", func(context.Context) (bool, error) {
					return ptr.Deref(s.shadow(t, test.name).DeletionGracePeriodSeconds, 0) == 1, nil
				})
				if err := shadows.Delete(t.Context(), test.name,
					metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the shadow pod is gone", gone)
		})
	}
}

func TestAPodEndsSoonerWhenItsShadowPodIsDeletedAgain(t *testing.T) {
	s := newStage(t)
	s.post(t, "web", corev1.RestartPolicyAlways)
	pod := s.pod(t, "web")
	s.bind(t, pod)
	for _, seconds := range []int64{300, 20, 1} {
		if err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Delete(t.Context(), "web",
			metav1.DeleteOptions{GracePeriodSeconds: &seconds}); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("the pod has %d seconds to end", seconds), func(ctx context.Context) (bool, error) {
			current, err := s.kube.CoreV1().Pods(s.namespace).Get(ctx, "web", metav1.GetOptions{})
			return err == nil && ptr.Deref(current.DeletionGracePeriodSeconds, -1) == seconds, err
		})
	}
	if err := killed(t.Context(), s.kube, pod); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedPodReportsTheReasonAndIsRetried(t *testing.T) {
	s := newStage(t)
	quotas := s.kube.CoreV1().ResourceQuotas(s.namespace)
	zero := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: zero}}
	// No controller runs that computes the usage of quotas.
	quota, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: zero, Used: zero}
	if _, err := quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the quota is enforced", func(ctx context.Context) (bool, error) {
		probe := pod(nil)
		_, err := s.kube.CoreV1().Pods(s.namespace).Create(ctx, probe,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), nil
	})
	s.post(t, "web", corev1.RestartPolicyAlways)
	until(t, "the refusal is reported", func(context.Context) (bool, error) {
		condition := meta.FindStatusCondition(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodCreated)
		return condition != nil && condition.Status == metav1.ConditionFalse &&
			condition.Reason == v1alpha1.ReasonProviderRefused, nil
	})
	if err := quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.pod(t, "web")
	until(t, "the pod is admitted", func(context.Context) (bool, error) {
		return meta.IsStatusConditionTrue(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodCreated), nil
	})
}

func TestUnmanagedPodIsNotChanged(t *testing.T) {
	s := newStage(t)
	unmanaged := pod(nil)
	unmanaged, err := s.kube.CoreV1().Pods(s.namespace).Create(t.Context(), unmanaged, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, "web", corev1.RestartPolicyAlways)
	until(t, "the conflict is reported", func(context.Context) (bool, error) {
		condition := meta.FindStatusCondition(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodCreated)
		return condition != nil && condition.Reason == "NameConflict", nil
	})
	if err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Delete(t.Context(), "web",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the shadow pod is gone", func(ctx context.Context) (bool, error) {
		_, err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if pod := s.pod(t, "web"); pod.UID != unmanaged.UID || pod.ResourceVersion != unmanaged.ResourceVersion {
		t.Errorf("the unmanaged pod was changed")
	}
}

func TestChangesOfAShadowPodReachItsPod(t *testing.T) {
	s := newStage(t)
	// Without a ForeignCluster, whose trust is SameOwner here, the toleration would be refused.
	clusters := s.federation.FederationV1alpha1().ForeignClusters()
	must(t)(clusters.Create(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}},
		metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		if err := clusters.Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err := clusters.Patch(ctx, s.namespace, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		return ignoreNotFound(err)
	})
	s.post(t, "web", corev1.RestartPolicyAlways)
	first := s.pod(t, "web")
	// Annotations that the provider's components set must be kept.
	if _, err := s.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"cni":"local"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := `{"metadata":{"labels":{"app":null,"tier":"front"}},"spec":{"pod":{"containers":[{"name":"main",` +
		`"image":"example.com/two"}],"tolerations":[{"key":"dedicated","operator":"Exists"}]}}}`
	if _, err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod has changed", func(context.Context) (bool, error) {
		pod := s.pod(t, "web")
		_, old := pod.Labels["app"]
		return !old && pod.Labels["tier"] == "front" && pod.Spec.Containers[0].Image == "example.com/two" &&
			slices.ContainsFunc(pod.Spec.Tolerations,
				func(toleration corev1.Toleration) bool { return toleration.Key == "dedicated" }), nil
	})
	if pod := s.pod(t, "web"); pod.UID != first.UID || pod.Annotations["cni"] != "local" ||
		pod.Labels[v1alpha1.LabelOrigin] != thatID {
		t.Errorf("the pod lost fields of the provider: %+v", pod.ObjectMeta)
	}
}

func TestEphemeralContainerReachesThePod(t *testing.T) {
	s := newStage(t)
	s.post(t, "web", corev1.RestartPolicyAlways)
	first := s.pod(t, "web")
	api := s.federation.FederationV1alpha1().ShadowPods(s.namespace)
	patch := `{"spec":{"pod":{"ephemeralContainers":[{"name":"debug","image":"example.com/debug",` +
		`"targetContainerName":"main"}]}}}`
	if _, err := api.Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	has := func(pod *corev1.Pod) bool {
		all := pod.Spec.EphemeralContainers
		return len(all) == 1 && all[0].Name == "debug" && all[0].TargetContainerName == "main"
	}
	until(t, "the pod has the container", func(context.Context) (bool, error) { return has(s.pod(t, "web")), nil })

	privileged := `[{"op":"add","path":"/spec/pod/ephemeralContainers/-","value":{"name":"root",` +
		`"image":"example.com/debug","securityContext":{"privileged":true}}}]`
	_, err := api.Patch(t.Context(), "web", types.JSONPatchType, []byte(privileged), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a privileged container is added: %v", err)
	}

	// When the remote pod is recreated, an ephemeral container can be added again.
	if err := s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "web", now(first)); err != nil {
		t.Fatal(err)
	}
	second := s.pod(t, "web", first.UID)
	until(t, "the new pod has the container", func(context.Context) (bool, error) { return has(s.pod(t, "web")), nil })
	if last := s.pod(t, "web"); last.UID != second.UID {
		t.Error("the pod was recreated")
	}
}

func TestRefusedEphemeralContainerDoesNotBlockOtherUpdates(t *testing.T) {
	s := newStage(t)
	s.post(t, "web", corev1.RestartPolicyAlways)
	s.pod(t, "web")
	level := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := s.kube.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, []byte(level),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the priority level is in force", func(ctx context.Context) (bool, error) {
		_, err := s.kube.CoreV1().Pods(s.namespace).Create(ctx, pod(nil),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), nil
	})
	patch := `{"metadata":{"labels":{"tier":"front"}},"spec":{"pod":{"ephemeralContainers":[{"name":"debug",` +
		`"image":"example.com/debug"}]}}}`
	if _, err := s.federation.FederationV1alpha1().ShadowPods(s.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod has the label",
		func(context.Context) (bool, error) { return s.pod(t, "web").Labels["tier"] == "front", nil })
	if all := s.pod(t, "web").Spec.EphemeralContainers; len(all) > 0 {
		t.Errorf("the pod has %+v", all)
	}
}

func TestNothingRunsOutsideOfRemoteNamespaces(t *testing.T) {
	s := newStage(t)
	s.namespace = framework.Get(t).MakeNamespace(t)
	s.post(t, "web", corev1.RestartPolicyAlways)
	until(t, "the shadow pod reports why nothing runs", func(context.Context) (bool, error) {
		condition := meta.FindStatusCondition(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodCreated)
		return condition != nil && condition.Reason == "NotARemoteNamespace", nil
	})
	if _, err := s.kube.CoreV1().Pods(s.namespace).Get(t.Context(), "web",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want no pod", err)
	}
}
