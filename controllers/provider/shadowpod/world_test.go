// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const remoteName = "shop-rome"

var (
	noon = kittest.Epoch
	web  = client.ObjectKey{Namespace: remoteName, Name: "web"}
)

func shadowPod(change ...func(*v1alpha1.ShadowPod)) *v1alpha1.ShadowPod {
	shadow := &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: remoteName, UID: "shadow-uid", Generation: 1, Finalizers: []string{v1alpha1.Finalizer},
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{v1alpha1.AnnotationOriginUID: "origin-uid"},
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "one"}},
		}},
	}
	for _, c := range change {
		c(shadow)
	}
	return shadow
}

func never(shadow *v1alpha1.ShadowPod) { shadow.Spec.Pod.RestartPolicy = corev1.RestartPolicyNever }

func deleted(shadow *v1alpha1.ShadowPod) { deletedWithin(30)(shadow) }

// deletedWithin deletes a shadow pod with a grace period in seconds that expires at noon.
func deletedWithin(seconds int64) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) {
		shadow.DeletionTimestamp, shadow.DeletionGracePeriodSeconds = &metav1.Time{Time: noon}, &seconds
	}
}

// unreadFor deletes a shadow pod with a grace period of a second that expired a time ago.
func unreadFor(ago time.Duration) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) {
		shadow.DeletionTimestamp, shadow.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(-ago)}, ptr.To[int64](1)
	}
}

// immediate sets a grace period of 0.
func immediate(shadow *v1alpha1.ShadowPod) {
	shadow.Spec.Pod.TerminationGracePeriodSeconds = new(int64)
}

func held(by ...string) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) { shadow.Finalizers = by }
}

func hasEnded(shadow *v1alpha1.ShadowPod) { shadow.Status.Phase = corev1.PodSucceeded }

func debugged(shadow *v1alpha1.ShadowPod) {
	shadow.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug"}},
	}
}

// requesting sets the CPUs that the container requests.
func requesting(cpus string) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) { shadow.Spec.Pod.Containers[0].Resources.Requests = cpu(cpus) }
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func changedOnce(shadow *v1alpha1.ShadowPod) { shadow.Generation = 2 }

// hadMore records two allocated CPUs.
func hadMore(shadow *v1alpha1.ShadowPod) { shadow.Status.AllocatedResources = cpu("2") }

// with sets the CPUs that a pod requests by itself.
func with(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = cpu(cpus) }
}

// allocated sets the CPUs that the kubelet reports as allocated.
func allocated(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: cpu(cpus)}}
	}
}

// older removes the recorded state, as of a pod that an older version created.
func older(pod *corev1.Pod) {
	recorded := recordedOn(pod)
	recorded.Resources = ""
	encoded, err := json.Marshal(recorded)
	if err != nil {
		panic(err)
	}
	pod.Annotations[annotationMirrored] = string(encoded)
}

func remoteNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteName, Labels: map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelOrigin: "consumer-id",
		v1alpha1.LabelDestination: "provider-id",
	}}}
}

// podOf returns the pod of a shadow pod as the API server has it.
func podOf(t *testing.T, shadow *v1alpha1.ShadowPod, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := podFor(shadow, remoteNamespace())
	if err != nil {
		t.Fatal(err)
	}
	pod.UID = "pod-uid"
	pod.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(pod)
	}
	return pod
}

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func stopping(pod *corev1.Pod) {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon}, ptr.To[int64](30)
}

func forced(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(-ago)}, ptr.To[int64](0)
	}
}

func bound(pod *corev1.Pod) { pod.Spec.NodeName = "worker" }

func ofEarlier(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "earlier" }

func ofOther(pod *corev1.Pod) { pod.OwnerReferences = nil }

// kept is the finalizer of objects that are being deleted and have none: a fake API server
// has no grace periods. The controller does not read it.
const kept = "example.com/grace-period"

// everywhere implements Placer. It allows all nodes, and pods within limits.
type everywhere struct{ limits Limits }

func (*everywhere) Place(context.Context, string, string) (Placement, error) { return Placement{}, nil }

func (e *everywhere) Limits(context.Context, string) (Limits, error) { return e.limits, nil }

// world is a fake provider with one ShadowPod and its pod.
type world struct {
	*kittest.Cluster
	r *Reconciler
	// placer has the limits for the pod.
	placer *everywhere
	// late is true if the cache contains no pods.
	late bool
}

// newWorld returns a provider with a ShadowPod and a pod, each of which may be nil.
func newWorld(t *testing.T, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) *world {
	t.Helper()
	objects := []client.Object{remoteNamespace()}
	if shadow != nil {
		objects = append(objects, shadow.DeepCopy())
	}
	if pod != nil {
		objects = append(objects, pod.DeepCopy())
	}
	for _, object := range objects {
		if !object.GetDeletionTimestamp().IsZero() && len(object.GetFinalizers()) == 0 {
			object.SetFinalizers([]string{kept})
		}
	}
	w := &world{Cluster: kittest.New(t, objects...), placer: &everywhere{}}
	w.r = &Reconciler{
		Placer: w.placer, Events: w.Events, Clock: w.Clock,
		backoff:   flowcontrol.NewFakeBackOff(minBackoff, maxBackoff, w.Clock),
		evictions: flowcontrol.NewFakeBackOff(minBackoff, maxEvictionDelay, w.Clock),
		created:   kit.NewExpectations(w.Clock),
	}
	w.answer(interceptor.Funcs{})
	w.r.pods = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{Get: w.cachedPod})
	return w
}

// answer replaces responses of the API server.
func (w *world) answer(funcs interceptor.Funcs) {
	funcs.Get = func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		err := c.Get(ctx, key, o, options...)
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(name string) bool { return name == kept }))
		return err
	}
	w.r.Client = interceptor.NewClient(w.Controller, funcs)
	w.r.Live = w.r.Client
}

// cachedPod reads a pod as the controller's cache has it.
func (w *world) cachedPod(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption,
) error {
	pod := o.(*corev1.Pod)
	if err := c.Get(ctx, key, pod); err != nil {
		return err
	}
	if _, labelled := pod.Labels[v1alpha1.LabelOrigin]; w.late || !labelled {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	trimmed, err := trim(pod)
	*pod = *trimmed.(*corev1.Pod)
	return err
}

// pass reconciles once.
func (w *world) pass(t *testing.T) time.Duration {
	t.Helper()
	after, _ := w.Pass(w.r, kit.Request(web.Namespace, web.Name))
	return after
}

func (w *world) shadow() *v1alpha1.ShadowPod {
	return kittest.Read(w.Cluster, web.Namespace, web.Name, &v1alpha1.ShadowPod{})
}

func (w *world) pod() *corev1.Pod {
	return kittest.Read(w.Cluster, web.Namespace, web.Name, &corev1.Pod{})
}
