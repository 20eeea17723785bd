// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

var (
	noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	web  = cache.NewObjectName("twin", "web")
)

func shadowPod(change ...func(*v1alpha1.ShadowPod)) *v1alpha1.ShadowPod {
	shadow := &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "twin", UID: "shadow-uid", Generation: 1, Finalizers: []string{v1alpha1.Finalizer},
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

// deletedWithin is a shadow pod whose grace period of so many seconds is over at
// noon.
func deletedWithin(seconds int64) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) {
		shadow.DeletionTimestamp, shadow.DeletionGracePeriodSeconds = &metav1.Time{Time: noon}, &seconds
	}
}

// unreadFor is one of whose grace period a second was left so long ago.
func unreadFor(ago time.Duration) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) {
		shadow.DeletionTimestamp, shadow.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(-ago)}, ptr.To[int64](1)
	}
}

// impatient is one whose pod has no time to end.
func impatient(shadow *v1alpha1.ShadowPod) {
	shadow.Spec.Pod.TerminationGracePeriodSeconds = new(int64)
}

func held(by ...string) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) { shadow.Finalizers = by }
}

func hasEnded(shadow *v1alpha1.ShadowPod) { shadow.Status.Phase = corev1.PodSucceeded }

func debugged(shadow *v1alpha1.ShadowPod) {
	shadow.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug"}}}
}

// asking has the container ask for so many CPUs.
func asking(cpus string) func(*v1alpha1.ShadowPod) {
	return func(shadow *v1alpha1.ShadowPod) { shadow.Spec.Pod.Containers[0].Resources.Requests = cpu(cpus) }
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func changedOnce(shadow *v1alpha1.ShadowPod) { shadow.Generation = 2 }

// tookMore is a shadow pod that took two CPUs.
func tookMore(shadow *v1alpha1.ShadowPod) { shadow.Status.AllocatedResources = cpu("2") }

// has gives a pod other CPUs than its shadow pod did.
func has(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = cpu(cpus) }
}

// allocated is what the kubelet says that a pod has.
func allocated(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: cpu(cpus)}}
	}
}

// older is a pod that an older version made.
func older(pod *corev1.Pod) {
	given := givenTo(pod)
	given.Resources = ""
	encoded, err := json.Marshal(given)
	if err != nil {
		panic(err)
	}
	pod.Annotations[annotationMirrored] = string(encoded)
}

func twin() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "twin", Labels: map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelOrigin: "there", v1alpha1.LabelDestination: "here",
	}}}
}

// podOf is the pod of a shadow pod as the API server has it.
func podOf(t *testing.T, shadow *v1alpha1.ShadowPod, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := podFor(shadow, twin())
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

func ofAnother(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "an earlier one" }

func ofNobody(pod *corev1.Pod) { pod.OwnerReferences = nil }

// world is what the controller finds: its caches and the APIs hold the same.
type world struct {
	*Controller
	clock      *clocktesting.FakeClock
	kube       *kubefake.Clientset
	federation *fedfake.Clientset
	events     *record.FakeRecorder
}

func newWorld(t *testing.T, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) world {
	t.Helper()
	w := world{
		clock: clocktesting.NewFakeClock(noon), kube: kubefake.NewSimpleClientset(twin()),
		federation: fedfake.NewSimpleClientset(), events: record.NewFakeRecorder(10),
	}
	kubeInformers := kubeinformers.NewSharedInformerFactory(w.kube, 0)
	federationInformers := externalversions.NewSharedInformerFactory(w.federation, 0)
	var err error
	w.Controller, err = newController(w.kube, w.federation, kubeInformers, federationInformers, w.events, func(_, _ string) Placement { return Placement{} }, w.clock,
		flowcontrol.NewFakeBackOff(minBackoff, maxBackoff, w.clock))
	if err != nil {
		t.Fatal(err)
	}
	add := func(indexer cache.Indexer, object runtime.Object) {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	add(kubeInformers.Core().V1().Namespaces().Informer().GetIndexer(), twin())
	if shadow != nil {
		if err := w.federation.Tracker().Add(shadow); err != nil {
			t.Fatal(err)
		}
		add(federationInformers.Federation().V1alpha1().ShadowPods().Informer().GetIndexer(), shadow)
	}
	if pod != nil {
		if err := w.kube.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
		trimmed, err := trim(pod)
		if err != nil {
			t.Fatal(err)
		}
		add(w.podInformers.Core().V1().Pods().Informer().GetIndexer(), trimmed.(*corev1.Pod))
	}
	return w
}

func (w world) writes() []string {
	var all []string
	for _, action := range append(w.kube.Actions(), w.federation.Actions()...) {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			resource := action.GetResource().Resource
			if action.GetSubresource() != "" {
				resource += "/" + action.GetSubresource()
			}
			all = append(all, verb+" "+resource)
		}
	}
	return all
}

func TestPodIsDeletedWithTheGracePeriodOfItsShadowPod(t *testing.T) {
	for _, test := range []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		pod    func(*corev1.Pod)
		want   int64
	}{
		{name: "as it was deleted", shadow: shadowPod(deletedWithin(300)), pod: bound, want: 300},
		{name: "and again, when less is left", shadow: shadowPod(deletedWithin(5)), pod: stopping, want: 5},
		{name: "by force it would run and not count, so it has its own", shadow: shadowPod(deletedWithin(0)), pod: bound, want: -1},
		{name: "and a second if that is none", shadow: shadowPod(deletedWithin(0), impatient), pod: bound, want: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.shadow, podOf(t, shadowPod(), test.pod))
			if _, err := w.reconcile(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, action := range w.kube.Actions() {
				if deletion, ok := action.(clienttesting.DeleteActionImpl); ok {
					got = append(got, ptr.Deref(deletion.DeleteOptions.GracePeriodSeconds, -1))
				}
			}
			if diff := cmp.Diff([]int64{test.want}, got); diff != "" {
				t.Errorf("grace periods of the deletions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShadowPodAndPodComeTogether(t *testing.T) {
	for _, test := range []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		pod    func(*testing.T) *corev1.Pod
		wrote  []string
		// again is when it is looked at without any news.
		again time.Duration
	}{
		{name: "a pod is created", shadow: shadowPod(), wrote: []string{"create pods"}},
		{
			name: "a running pod is left in peace", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
		},
		{
			name: "a pod that is finished is written down", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), in(corev1.PodFailed)) },
			wrote: []string{"patch shadowpods/status"},
		},
		{
			name: "so is one that somebody deletes", shadow: shadowPod(never),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), in(corev1.PodSucceeded), stopping)
			},
			wrote: []string{"patch shadowpods/status"},
		},
		{name: "a finished pod does not run again", shadow: shadowPod(never, hasEnded)},
		{
			name: "a finished pod stays for who reads its log", shadow: shadowPod(never, hasEnded),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), in(corev1.PodSucceeded)) },
		},
		{
			name: "a finished pod may be deleted once its end is known", shadow: shadowPod(never, hasEnded),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), in(corev1.PodSucceeded), stopping)
			},
			wrote: []string{"patch pods"},
		},
		{
			name: "an evicted pod that should run for ever is removed", shadow: shadowPod(),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), in(corev1.PodFailed)) },
			wrote: []string{"delete pods"},
		},
		{
			name: "a pod that somebody else deletes is waited for", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{
			name: "one deleted by force may still tell how it ended", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(abandoned-1)) },
			again: 1,
		},
		{
			name: "but not for ever", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(abandoned)) },
			wrote: []string{"patch pods"},
		},
		{
			name: "a deleted shadow pod stops its pod", shadow: shadowPod(deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
			wrote: []string{"delete pods"},
		},
		{
			name: "sooner when it is deleted again", shadow: shadowPod(deletedWithin(5)),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
			wrote: []string{"delete pods"},
		},
		{
			name: "and not in the middle of its time when it is deleted by force", shadow: shadowPod(deletedWithin(0)),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{
			name: "one that may have got a node just now is not let go", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never)) },
			wrote: []string{"delete pods"},
		},
		{
			name: "also one whose end is not known", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound) },
			wrote: []string{"delete pods"},
		},
		{
			name: "and is told how it ends", shadow: shadowPod(never, deleted),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound, stopping) },
		},
		{
			name: "and writes that down", shadow: shadowPod(never, deleted),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), bound, stopping, in(corev1.PodSucceeded))
			},
			wrote: []string{"patch shadowpods/status"},
		},
		{
			name: "before the pod may go", shadow: shadowPod(never, deleted, hasEnded),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), bound, stopping, in(corev1.PodSucceeded))
			},
			wrote: []string{"patch pods"},
		},
		{
			name: "one that has no node has nothing to tell", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(0)) },
			wrote: []string{"patch pods"},
		},
		{
			name: "one deleted by force may tell it for a while", shadow: shadowPod(never, deletedWithin(0)),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound, forced(abandoned-1)) },
			again: 1,
		},
		{
			name: "and not for ever", shadow: shadowPod(never, deletedWithin(0)),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound, forced(abandoned)) },
			wrote: []string{"patch pods"},
		},
		{name: "an end is kept to be read", shadow: shadowPod(never, hasEnded, unreadFor(unread-1)), again: 1},
		{name: "but not for the rest of its time", shadow: shadowPod(never, hasEnded, deleted), wrote: []string{"delete shadowpods"}, again: unread},
		{name: "but not for ever", shadow: shadowPod(never, hasEnded, unreadFor(unread)), wrote: []string{"patch shadowpods"}},
		{
			name: "and no longer than until it was", shadow: shadowPod(never, hasEnded, deletedWithin(0)),
			wrote: []string{"patch shadowpods"},
		},
		{
			name: "and waits for it", shadow: shadowPod(deleted),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{name: "and then goes itself", shadow: shadowPod(deleted), wrote: []string{"patch shadowpods"}},
		{
			name: "what somebody else holds stays", shadow: shadowPod(deleted, held("example.com/of-theirs")),
		},
		{
			name: "what nothing holds is left from an older version", shadow: shadowPod(deleted, held()),
			wrote: []string{"delete shadowpods"},
		},
		{
			name: "the pod of an earlier shadow pod is waited for", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofAnother) },
		},
		{
			name: "somebody else's pod is a conflict", shadow: shadowPod(),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofNobody) },
			wrote: []string{"patch shadowpods/status"},
			again: minBackoff,
		},
		{
			name: "and nothing that a deleted shadow pod waits for", shadow: shadowPod(deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofNobody) },
			wrote: []string{"patch shadowpods"},
		},
		{
			name: "the garbage of a shadow pod that is gone may go",
			pod:  func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), stopping) }, wrote: []string{"patch pods"},
		},
		{
			name: "changes reach the pod",
			shadow: shadowPod(func(shadow *v1alpha1.ShadowPod) {
				shadow.Spec.Pod.Containers[0].Image = "two"
			}),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
			wrote: []string{"update pods"},
		},
		{
			name: "a pod is resized", shadow: shadowPod(asking("2")),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1"))) },
			wrote: []string{"update pods/resize", "update pods"},
		},
		{
			name: "and resized once", shadow: shadowPod(asking("2")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("2"))) },
		},
		{
			name: "what the provider gave it by itself stays", shadow: shadowPod(asking("1")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1")), has("2")) },
		},
		{
			name: "a pod of an older version that was not resized", shadow: shadowPod(asking("1")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1")), has("2"), older) },
		},
		{
			name: "and one that is", shadow: shadowPod(asking("2"), changedOnce),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1")), older) },
			wrote: []string{"update pods/resize", "update pods"},
		},
		{
			name: "a pod that has what was asked for before has nothing given back", shadow: shadowPod(asking("1"), tookMore),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("2"))) },
			wrote: []string{"update pods/resize", "update pods"},
		},
		{
			name: "nor has one whose kubelet has not resized it", shadow: shadowPod(asking("1"), tookMore),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1")), allocated("2")) },
		},
		{
			name: "but one that it has", shadow: shadowPod(asking("1"), tookMore),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(asking("1")), allocated("1")) },
			wrote: []string{"patch shadowpods/status"},
		},
		{name: "a pod that is made anew is not debugged yet", shadow: shadowPod(debugged), wrote: []string{"create pods"}},
		{
			name: "a container to debug with is added to the pod", shadow: shadowPod(debugged),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(debugged)) },
			wrote: []string{"update pods/ephemeralcontainers", "update pods"},
		},
		{
			name: "and added once", shadow: shadowPod(debugged),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(debugged), func(pod *corev1.Pod) {
					pod.Spec.EphemeralContainers = missingEphemeralContainers(pod, shadowPod(debugged))
					if err := update(pod, shadowPod(debugged), twin(), true); err != nil {
						t.Fatal(err)
					}
				})
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pod *corev1.Pod
			if test.pod != nil {
				pod = test.pod(t)
			}
			w := newWorld(t, test.shadow, pod)
			again, err := w.reconcile(t.Context(), web)
			if err != nil {
				t.Fatal(err)
			}
			if again != test.again {
				t.Errorf("it is looked at again after %s, want %s", again, test.again)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodIsLookedAtWhenItsLifeTakesATurn(t *testing.T) {
	alive := func(*corev1.Pod) {}
	for _, test := range []struct {
		name           string
		before, change func(*corev1.Pod)
		want           bool
	}{
		{"nothing happened", alive, alive, false},
		{"it is ready", alive, func(pod *corev1.Pod) { pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		{"it ended", alive, in(corev1.PodFailed), true},
		{"it is being deleted", alive, stopping, true},
		{"it has less time to end", stopping, func(pod *corev1.Pod) { pod.DeletionGracePeriodSeconds = ptr.To[int64](5) }, true},
		{"it is another one", alive, func(pod *corev1.Pod) { pod.UID = "another" }, true},
		{"somebody let it go", alive, func(pod *corev1.Pod) { pod.Finalizers = nil }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := podOf(t, shadowPod(never), test.before)
			after := before.DeepCopy()
			test.change(after)
			if got := turned(before, after); got != test.want {
				t.Errorf("it is looked at: %t", got)
			}
		})
	}
}

// tooLarge refuses statuses with volumes, as the API server does of too many.
func tooLarge(always bool) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "status" || !always && !strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), "volumeMounts") {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(shadowKind.GroupKind(), "web", nil)
	}
}

func TestAnEndThatIsRefusedIsToldInShortAndKeepsNothing(t *testing.T) {
	ended := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.DisruptionTarget, Reason: "EvictionByEvictionAPI"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", VolumeMounts: []corev1.VolumeMountStatus{{Name: "data"}},
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
		}}
	}
	t.Run("what matters is told", func(t *testing.T) {
		w := newWorld(t, shadowPod(never, deleted), podOf(t, shadowPod(never), bound, stopping, ended))
		w.federation.PrependReactor("patch", "shadowpods", tooLarge(false))
		if _, err := w.reconcile(t.Context(), web); err != nil {
			t.Fatal(err)
		}
		shadow, err := w.federation.FederationV1alpha1().ShadowPods("twin").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := v1alpha1.ShadowPodStatus{Phase: corev1.PodFailed, Pod: &corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Reason: "EvictionByEvictionAPI"}}, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
		}}}}
		if diff := cmp.Diff(want, shadow.Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
	t.Run("and if even that is refused the pod goes", func(t *testing.T) {
		w := newWorld(t, shadowPod(never, deleted), podOf(t, shadowPod(never), bound, stopping, ended))
		w.federation.PrependReactor("patch", "shadowpods", tooLarge(true))
		if _, err := w.reconcile(t.Context(), web); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("patch pods", w.writes()[0]); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

func TestAnEphemeralContainerThatIsRefusedHoldsUpNothingElse(t *testing.T) {
	tried := shadowPod(debugged, func(shadow *v1alpha1.ShadowPod) {
		shadow.Spec.Pod.EphemeralContainers[0].Name = "root"
		shadow.Spec.Pod.EphemeralContainers = append(shadow.Spec.Pod.EphemeralContainers, shadowPod(debugged).Spec.Pod.EphemeralContainers...)
		shadow.Labels["app"] = "changed"
	})
	w := newWorld(t, tried, podOf(t, shadowPod()))
	w.kube.PrependReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
		if action.GetSubresource() != "ephemeralcontainers" || !slices.Contains(ephemeralNames(pod.Spec.EphemeralContainers), "root") {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("violates PodSecurity \"restricted:latest\""))
	})
	if again, err := w.reconcile(t.Context(), web); err != nil || again != 0 {
		t.Fatalf("again after %s, %v", again, err)
	}
	pod, err := w.kube.CoreV1().Pods("twin").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"debug"}, ephemeralNames(pod.Spec.EphemeralContainers)); diff != "" {
		t.Errorf("ephemeral containers (-want +got):\n%s", diff)
	}
	if pod.Labels["app"] != "changed" {
		t.Errorf("the pod has the labels %v", pod.Labels)
	}
	if said := <-w.events.Events; !strings.Contains(said, "FailedUpdate") || !strings.Contains(said, "root") || !strings.Contains(said, "restricted") || len(w.events.Events) > 0 {
		t.Errorf("it is told %q, and %d more", said, len(w.events.Events))
	}
	seen := newWorld(t, tried, pod)
	if _, err := seen.reconcile(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if writes := seen.writes(); writes != nil {
		t.Errorf("it is tried again: %v", writes)
	}
}

func TestAResizeThatIsRefusedIsToldAndTriedAgainAndHoldsUpNothingElse(t *testing.T) {
	wanted := shadowPod(asking("2"), changedOnce, func(shadow *v1alpha1.ShadowPod) { shadow.Labels["app"] = "changed" })
	w := newWorld(t, wanted, podOf(t, shadowPod(asking("1"))))
	full := true
	refuse := func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "resize" || !full {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("node is too small"))
	}
	w.kube.PrependReactor("update", "pods", refuse)
	again, err := w.reconcile(t.Context(), web)
	if err != nil || again != minBackoff {
		t.Fatalf("again after %s, %v", again, err)
	}
	if diff := cmp.Diff([]string{"update pods/resize", "update pods", "patch shadowpods/status"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if said := <-w.events.Events; !strings.Contains(said, "FailedUpdate") || !strings.Contains(said, "node is too small") {
		t.Errorf("it is told %q", said)
	}
	pod, err := w.kube.CoreV1().Pods("twin").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shadow, err := w.federation.FederationV1alpha1().ShadowPods("twin").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	if refused == nil || refused.Status != metav1.ConditionFalse || refused.Reason != v1alpha1.ReasonProviderRefused || !strings.Contains(refused.Message, "node is too small") {
		t.Errorf("the shadow pod says %+v", refused)
	}
	if pod.Labels["app"] != "changed" || pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "1" {
		t.Errorf("the pod has the labels %v and %v", pod.Labels, pod.Spec.Containers[0].Resources)
	}

	// What happens meanwhile has it tried no earlier, but for another size.
	seen := newWorld(t, shadow, pod)
	seen.kube.PrependReactor("update", "pods", refuse)
	seen.backoff.Next(web.String(), noon)
	if again, err := seen.reconcile(t.Context(), web); err != nil || again != minBackoff || seen.writes() != nil {
		t.Errorf("again after %s, with %v, %v", again, seen.writes(), err)
	}
	other := shadow.DeepCopy()
	other.Generation++
	seen = newWorld(t, other, pod)
	full = false
	seen.kube.PrependReactor("update", "pods", refuse)
	seen.backoff.Next(web.String(), noon)
	if _, err := seen.reconcile(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if pod, err = seen.kube.CoreV1().Pods("twin").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "2" {
		t.Errorf("the pod has %v, %v", pod.Spec.Containers[0].Resources, err)
	}
	seen = newWorld(t, other, pod)
	if _, err := seen.reconcile(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if shadow, err = seen.federation.FederationV1alpha1().ShadowPods("twin").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || !meta.IsStatusConditionTrue(shadow.Status.Conditions, v1alpha1.ConditionPodResized) {
		t.Errorf("the shadow pod says %+v, %v", shadow.Status.Conditions, err)
	}
}

// Cache and API differ for a moment after a pod was resized.
func TestWhatALargerPodHasIsNotGivenBackByAnOlderOneInTheCache(t *testing.T) {
	shrunk := shadowPod(asking("1"), tookMore)
	for name, live := range map[string]*corev1.Pod{
		"made larger meanwhile":        podOf(t, shadowPod(asking("2"))),
		"not resized by its kubelet":   podOf(t, shadowPod(asking("1")), allocated("2")),
		"another one of the same name": podOf(t, shadowPod(asking("1")), func(pod *corev1.Pod) { pod.UID = "another" }),
		"gone":                         nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shrunk, podOf(t, shadowPod(asking("1"))))
			pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
			if err := w.kube.Tracker().Delete(pods, "twin", "web"); err != nil {
				t.Fatal(err)
			}
			if live != nil {
				if err := w.kube.Tracker().Add(live); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.reconcile(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			if writes := w.writes(); writes != nil {
				t.Errorf("it is written %v", writes)
			}
		})
	}
}

func TestPodThatIsNotSeenYetIsNotCreatedTwice(t *testing.T) {
	w := newWorld(t, shadowPod(), nil)
	w.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		pod.UID = "pod-uid"
		return true, pod, nil
	})
	for range 3 {
		if _, err := w.reconcile(t.Context(), web); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"create pods"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	// It was seen, and is gone again.
	w.podChanged(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "twin", UID: "pod-uid"}})
	if _, err := w.reconcile(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create pods", "create pods"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestEvictedPodIsMadeAgainWithGrowingDelays(t *testing.T) {
	var waited []time.Duration
	backoff := flowcontrol.NewFakeBackOff(minBackoff, maxBackoff, clocktesting.NewFakeClock(noon))
	for range 3 {
		w := newWorld(t, shadowPod(), podOf(t, shadowPod(), in(corev1.PodFailed)))
		w.backoff = backoff
		if _, err := w.reconcile(t.Context(), web); err != nil {
			t.Fatal(err)
		}
		gone := newWorld(t, shadowPod(), nil)
		gone.backoff = backoff
		again, err := gone.reconcile(t.Context(), web)
		if err != nil {
			t.Fatal(err)
		}
		if writes := gone.writes(); writes != nil {
			t.Errorf("made again at once: %v", writes)
		}
		waited = append(waited, again)
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, waited); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestRefusalIsToldAndTroubleIsNot(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		name    string
		err     error
		refused bool
		fails   bool
	}{
		{"a quota", apierrors.NewForbidden(pods, "web", errors.New("exceeded quota")), true, false},
		{"an invalid pod", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), true, false},
		{"an overloaded server", apierrors.NewTooManyRequests("later", 1), false, true},
		{"a broken server", apierrors.NewInternalError(errors.New("oops")), false, true},
		{"an expired identity", apierrors.NewUnauthorized("no"), false, true},
		{"no answer", errors.New("connection refused"), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shadowPod(), nil)
			w.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			again, err := w.reconcile(t.Context(), web)
			if (err != nil) != test.fails {
				t.Errorf("got error %v", err)
			}
			shadow, err := w.federation.FederationV1alpha1().ShadowPods("twin").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated)
			if told := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""; told != test.refused {
				t.Errorf("condition %+v", condition)
			}
			if test.refused && again != minBackoff {
				t.Errorf("tried again after %s", again)
			}
			if told := len(w.events.Events) == 1; told != test.refused {
				t.Errorf("%d events", len(w.events.Events))
			}
		})
	}
}
