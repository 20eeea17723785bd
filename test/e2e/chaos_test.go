// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

var (
	chaosTime = flag.Duration("chaos", 30*time.Second, "how long processes are ended and the clusters cut off while namespaces are in use")
	chaosSeed = flag.Uint64("chaos-seed", 0, "repeats the choices of an earlier run; 0 makes new ones and prints the seed")
)

// calm bounds the return to order: a container that was killed a few times is
// started again by its kubelet only after a while.
const calm = 6 * time.Minute

// survivesChaos ends processes of ours and cuts the clusters off from each
// other, at random, while somebody uses two offloaded namespaces, and offloads
// and takes back a third one. When it is over everything comes about that was
// asked for: no more, no less, once.
func survivesChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat the choices with -chaos-seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := playground.Heal(ctx, "rome", "milan"); err != nil {
			t.Error(err)
		}
	})

	var users []*user
	for range 2 {
		users = append(users, startUser(t, offloaded(t, remote), rand.New(rand.NewPCG(seed, uint64(len(users)+1)))))
	}
	wanders := startWanderer(t)
	end := time.Now().Add(*chaosTime)
	for round := 1; time.Now().Before(end); round++ {
		disturbance := disturbances[random.IntN(len(disturbances))]
		t.Logf("round %d: %s", round, disturbance.name)
		disturbance.do(t, func() {
			for _, user := range users {
				user.reach(t, 1+random.IntN(8))
			}
		})
		isWithinGrant(t)
	}
	for _, user := range users {
		user.stop()
		t.Logf("%d wishes in %s, %d refused, last with %v", user.wishes, user.o.namespace, user.refusals, user.last)
	}
	for _, user := range users {
		user.isServed(t)
	}
	wanders.isHome(t)
	isWithinGrant(t)
}

// disturbances are what happens in the chaos. Each is over when it returns,
// and calls meanwhile for as long as it should last.
var disturbances = []struct {
	name string
	do   func(t *testing.T, meanwhile func())
}{
	{"the virtual kubelet is killed", func(t *testing.T, meanwhile func()) {
		killOnce(t, rome, virtualKubelet(t), "federation-virtual-kubelet")
		meanwhile()
	}},
	{"the virtual kubelet's pod is deleted", func(t *testing.T, meanwhile func()) { replaced(t, rome, virtualKubelet(t)); meanwhile() }},
	{"rome's controller manager's pod is deleted", func(t *testing.T, meanwhile func()) {
		replaced(t, rome, componentPod(t, rome, "federation-controller-manager"))
		meanwhile()
	}},
	{"milan's controller manager is killed", func(t *testing.T, meanwhile func()) {
		killOnce(t, milan, componentPod(t, milan, "federation-controller-manager"), "federation-controller-manager")
		meanwhile()
	}},
	{"rome's API server is killed", func(t *testing.T, meanwhile func()) {
		killOnce(t, rome, componentPod(t, rome, "federation-apiserver"), "federation-apiserver")
		meanwhile()
	}},
	{"milan's API server's pod is deleted", func(t *testing.T, meanwhile func()) {
		replaced(t, milan, componentPod(t, milan, "federation-apiserver"))
		meanwhile()
	}},
	{"the clusters are cut off from each other", func(t *testing.T, meanwhile func()) {
		if err := playground.Partition(t.Context(), "rome", "milan"); err != nil {
			t.Fatal(err)
		}
		meanwhile()
		if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
			t.Fatal(err)
		}
	}},
	{"the virtual kubelet's pod is deleted while the clusters are cut off", func(t *testing.T, meanwhile func()) {
		if err := playground.Partition(t.Context(), "rome", "milan"); err != nil {
			t.Fatal(err)
		}
		replaced(t, rome, virtualKubelet(t))
		meanwhile()
		if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
			t.Fatal(err)
		}
	}},
}

// replaced deletes a pod and waits until it is gone and another one in its
// place is Ready.
func replaced(t *testing.T, c *harness.Cluster, pod *corev1.Pod) {
	t.Helper()
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		t.Fatalf("pod %s/%s has no controller that would replace it", pod.Namespace, pod.Name)
	}
	if err := c.Kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, calm, fmt.Sprintf("pod %s/%s on %s to be replaced", pod.Namespace, pod.Name, c.Name), func(ctx context.Context) (bool, string, error) {
		pods, err := c.Kube.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		var saw []string
		there, ready := false, false
		for _, other := range pods.Items {
			if by := metav1.GetControllerOf(&other); by != nil && by.UID == owner.UID {
				there = there || other.UID == pod.UID
				ready = ready || other.UID != pod.UID && isReady(&other)
				saw = append(saw, podState(&other))
			}
		}
		return ready && !there, strings.Join(saw, "; "), nil
	})
}

// user wants things in an offloaded namespace, one after the other, and
// remembers what they should have led to.
type user struct {
	o       offload
	random  *rand.Rand
	cancel  context.CancelFunc
	stopped chan struct{}

	mutex            sync.Mutex
	wishes, refusals int
	last             error
	// replicas are of Deployments, and pods those that were not deleted. Where
	// an answer was lost, nothing is known of the former, and the latter is nil.
	replicas map[string]int32
	pods     map[string]*types.UID
	jobs     []string
	// disturbed are jobs of which a pod was deleted.
	disturbed sets.Set[string]
	// wrong is what became of pods that may not: one that had ended had another
	// phase then, or one of a job ran twice.
	wrong []string
}

const (
	deployments = 3
	completions = 2
)

func startUser(t *testing.T, o offload, random *rand.Rand) *user {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	u := &user{o: o, random: random, cancel: cancel, stopped: make(chan struct{}), replicas: map[string]int32{}, pods: map[string]*types.UID{}, disturbed: sets.New[string]()}
	for i := range deployments {
		name := fmt.Sprintf("web-%d", i)
		runDeployment(t, o.namespace, name, 1, podSpec("serve"))
		u.replicas[name] = 1
	}
	u.watchLives(t, rome, o.namespace)
	u.watchLives(t, milan, o.twin)
	pace := time.NewTicker(500 * time.Millisecond)
	go func() {
		defer close(u.stopped)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
			// Not cut short by the end: its answer says what to expect.
			err := u.wish(t.Context(), i)
			u.mutex.Lock()
			u.wishes++
			if err != nil {
				u.refusals++
				u.last = err
			}
			u.mutex.Unlock()
		}
	}()
	t.Cleanup(u.stop)
	return u
}

// watchLives notes pods of a namespace that have ended and do not stay so, and
// those of jobs that stand for the same one as another did before.
func (u *user) watchLives(t *testing.T, c *harness.Cluster, namespace string) {
	t.Helper()
	origins := map[string]types.UID{}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithNamespace(namespace))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			pod := obj.(*corev1.Pod)
			origin := pod.Annotations[v1alpha1.AnnotationOriginUID]
			if origin == "" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
				return
			}
			if first, ok := origins[origin]; ok && first != pod.UID {
				u.complain("%s on %s came twice, as %s and %s", pod.Name, c.Name, first, pod.UID)
			}
			origins[origin] = pod.UID
		},
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.Pod), after.(*corev1.Pod)
			if was.UID == is.UID && was.Status.Phase != is.Status.Phase && (was.Status.Phase == corev1.PodSucceeded || was.Status.Phase == corev1.PodFailed) {
				u.complain("%s on %s was %s and is %s", is.Name, c.Name, was.Status.Phase, is.Status.Phase)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
}

func (u *user) complain(format string, args ...any) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.wrong = append(u.wrong, fmt.Sprintf(format, args...))
}

// wish asks for one thing.
func (u *user) wish(ctx context.Context, i int) error {
	switch u.random.IntN(5) {
	case 0, 1:
		name, replicas := fmt.Sprintf("web-%d", u.random.IntN(deployments)), int32(u.random.IntN(4))
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		deployment, err := rome.Kube.AppsV1().Deployments(u.o.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		switch {
		case err == nil:
			u.replicas[name] = *deployment.Spec.Replicas
		case lost(err):
			delete(u.replicas, name)
		}
		return err
	case 2:
		if len(u.jobs) == 10 {
			return nil
		}
		name := fmt.Sprintf("job-%d", i)
		spec := podSpec("print", "done")
		spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := rome.Kube.BatchV1().Jobs(u.o.namespace).Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1.JobSpec{Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](completions), BackoffLimit: ptr.To[int32](1),
				PodReplacementPolicy: ptr.To(batchv1.Failed), Template: corev1.PodTemplateSpec{Spec: spec}},
		}, metav1.CreateOptions{})
		if err == nil {
			u.jobs = append(u.jobs, name)
		}
		return err
	case 3:
		// Once of each job, which waits to hear how it ended.
		if len(u.jobs) == 0 || u.disturbed.Has(u.jobs[len(u.jobs)-1]) {
			return nil
		}
		name := u.jobs[len(u.jobs)-1]
		pods, err := rome.Kube.CoreV1().Pods(u.o.namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		u.disturbed.Insert(name)
		return rome.Kube.CoreV1().Pods(u.o.namespace).Delete(ctx, pods.Items[u.random.IntN(len(pods.Items))].Name, metav1.DeleteOptions{})
	default:
		// The same name again, as a StatefulSet's.
		name := fmt.Sprintf("single-%d", u.random.IntN(2))
		if _, there := u.pods[name]; there {
			err := rome.Kube.CoreV1().Pods(u.o.namespace).Delete(ctx, name, metav1.DeleteOptions{})
			switch {
			case err == nil, apierrors.IsNotFound(err):
				delete(u.pods, name)
			case lost(err):
				u.pods[name] = nil
			}
			return err
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: podSpec("serve")}
		pod, err := rome.Kube.CoreV1().Pods(u.o.namespace).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			// The one before is still going.
			return nil
		case err == nil:
			u.pods[name] = &pod.UID
		case lost(err):
			u.pods[name] = nil
		}
		return err
	}
}

// lost tells of an error whether what was asked for may have come about
// nevertheless.
func lost(err error) bool {
	return err != nil && (apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// reach waits until more has been wished for.
func (u *user) reach(t *testing.T, more int) {
	t.Helper()
	u.mutex.Lock()
	goal := u.wishes + more
	u.mutex.Unlock()
	eventually(t, soon, fmt.Sprintf("%d more wishes", more), func(context.Context) (bool, string, error) {
		u.mutex.Lock()
		defer u.mutex.Unlock()
		return u.wishes >= goal, fmt.Sprintf("%d of %d", u.wishes, goal), nil
	})
}

func (u *user) stop() {
	u.cancel()
	<-u.stopped
}

// isServed waits until everything in the namespace and its twin is as the
// user wished it, and the two agree on every pod.
func (u *user) isServed(t *testing.T) {
	t.Helper()
	for name, replicas := range u.replicas {
		eventually(t, calm, fmt.Sprintf("%d replicas of %s/%s", replicas, u.o.namespace, name), func(ctx context.Context) (bool, string, error) {
			d, err := rome.Kube.AppsV1().Deployments(u.o.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return hasRolledOut(d, replicas), show(d.Status), nil
		})
	}
	for _, name := range u.jobs {
		eventually(t, calm, fmt.Sprintf("%d completions of %s/%s", completions, u.o.namespace, name), func(ctx context.Context) (bool, string, error) {
			job, err := rome.Kube.BatchV1().Jobs(u.o.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			if job.Status.Failed > 0 && !u.disturbed.Has(name) {
				return false, "", harness.Permanent(fmt.Errorf("pods of the job failed: %s", show(job.Status)))
			}
			return job.Status.Succeeded == completions, show(job.Status), nil
		})
	}
	for name, uid := range u.pods {
		if uid == nil {
			continue
		}
		eventually(t, calm, fmt.Sprintf("pod %s/%s to be Ready", u.o.namespace, name), func(ctx context.Context) (bool, string, error) {
			pod, err := rome.Kube.CoreV1().Pods(u.o.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			if pod.UID != *uid {
				return false, "", harness.Permanent(fmt.Errorf("it was made anew: uid %s, want %s", pod.UID, *uid))
			}
			return isReady(pod), podState(pod), nil
		})
	}
	// Both sides are read again and again as a whole: pods that were deleted
	// last are still on their way out.
	eventually(t, calm, u.o.namespace+" and "+u.o.twin+" to hold the same pods", func(ctx context.Context) (bool, string, error) {
		here, going, err := living(ctx, rome, u.o.namespace)
		if err != nil {
			return false, "", err
		}
		there, goingThere, err := living(ctx, milan, u.o.twin)
		if err != nil {
			return false, "", err
		}
		going = append(going, goingThere...)
		diff := cmp.Diff(there, here)
		return diff == "" && len(going) == 0, fmt.Sprintf("going: %v; (-milan +rome):\n%s", going, diff), nil
	})
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.wrong) > 0 {
		t.Errorf("pods of %s: %s", u.o.namespace, strings.Join(u.wrong, "; "))
	}
}

// wanderer is a Deployment whose namespace is offloaded and taken back, again and
// again.
type wanderer struct {
	o       offload
	cancel  context.CancelFunc
	stopped chan struct{}
	turns   int
}

const wandering = 2 // pods

// wherever has pods leave for the other cluster when they may.
var wherever = v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote, Enforcement: v1alpha1.Evict}

func startWanderer(t *testing.T) *wanderer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &wanderer{o: offloaded(t, wherever), cancel: cancel, stopped: make(chan struct{})}
	runDeployment(t, w.o.namespace, "web", wandering, podSpec("serve"))
	pace := time.NewTicker(5 * time.Second)
	go func() {
		defer close(w.stopped)
		defer pace.Stop()
		for ctx.Err() == nil {
			// What is refused meanwhile is tried again. Not cut short by the end.
			if turned, err := w.turn(t.Context()); turned && err == nil {
				w.turns++
			}
			select {
			case <-ctx.Done():
			case <-pace.C:
			}
		}
	}()
	t.Cleanup(w.stop)
	return w
}

// turn takes the namespace back if it is offloaded, and offloads it if it is not.
func (w *wanderer) turn(ctx context.Context) (turned bool, err error) {
	client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(w.o.namespace)
	nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.CreateOffload(ctx, v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{Spec: wherever}, metav1.CreateOptions{})
		return true, err
	case err != nil || nsof.DeletionTimestamp != nil:
		return false, err
	}
	return true, client.Delete(ctx, v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{})
}

func (w *wanderer) stop() {
	w.cancel()
	<-w.stopped
}

// isHome takes the namespace back for good, and waits until its pods are home and
// nothing of it is left next door.
func (w *wanderer) isHome(t *testing.T) {
	t.Helper()
	w.stop()
	t.Logf("%s was taken back and offloaded again: %d turns", w.o.namespace, w.turns)
	if w.turns == 0 {
		t.Error("it stayed where it was")
	}
	eventually(t, calm, w.o.namespace+" to be taken back", func(ctx context.Context) (bool, string, error) {
		client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(w.o.namespace)
		if err := client.Delete(ctx, v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return false, fmt.Sprint(err), nil
		}
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, w.o.twin, metav1.GetOptions{})
		return gone(err)
	})
	eventually(t, calm, "the pods of "+w.o.namespace+" to be home", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(w.o.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		var saw []string
		home := 0
		for _, pod := range pods.Items {
			if saw = append(saw, podState(&pod)); isReady(&pod) && pod.Spec.NodeName != virtualNode {
				home++
			}
		}
		return home == wandering && len(saw) == wandering, strings.Join(saw, "; "), nil
	})
}

func hasRolledOut(d *appsv1.Deployment, replicas int32) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == replicas && d.Status.ReadyReplicas == replicas && *d.Spec.Replicas == replicas
}

// living are the pods that have not ended and are not being deleted, by name,
// and going those that are.
func living(ctx context.Context, c *harness.Cluster, namespace string) (pods map[string]seen, going []string, err error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	pods = map[string]seen{}
	for _, pod := range list.Items {
		switch {
		case pod.DeletionTimestamp != nil:
			going = append(going, c.Name+"/"+pod.Name)
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			pods[pod.Name] = whatIsSeen(&pod)
		}
	}
	return pods, going, nil
}
