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
	chaosTime = flag.Duration("chaos", 0,
		"how long the group chaos kills processes and partitions the clusters; 0 leaves out the group")
	chaosSeed = flag.Uint64("chaos-seed", 0, "seed of an earlier run, to repeat its choices; 0 chooses and prints one")
)

// calm is the timeout for recovery. It is long because the kubelet backs off before it restarts a
// container that was killed several times.
const calm = 6 * time.Minute

// survivesChaos ends processes of the product and partitions the clusters at random. Meanwhile
// users change two offloaded namespaces, and a third namespace is offloaded and unoffloaded
// repeatedly. After the faults, all clusters must reach the last requested state.
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
		users = append(users, startUser(t, offloaded(t, remoteOnly), rand.New(rand.NewPCG(seed, uint64(len(users)+1)))))
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
		isWithinQuota(t)
	}
	for _, user := range users {
		user.stop()
		t.Logf("%d requests in %s, %d refused, last with %v", user.requests, user.o.namespace, user.refusals, user.last)
	}
	for _, user := range users {
		user.isServed(t)
	}
	wanders.isUnoffloaded(t)
	isWithinQuota(t)
}

// disturbances are the faults. Each function causes a fault, calls meanwhile while the fault lasts,
// and returns when it is reverted.
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

// replaced deletes a pod, and waits until its replacement is Ready and the pod does not exist.
func replaced(t *testing.T, c *harness.Cluster, pod *corev1.Pod) {
	t.Helper()
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		t.Fatalf("pod %s/%s has no controller that would replace it", pod.Namespace, pod.Name)
	}
	if err := c.Kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, calm, fmt.Sprintf("pod %s/%s on %s to be replaced", pod.Namespace, pod.Name, c.Name),
		func(ctx context.Context) (bool, string, error) {
			pods, err := c.Kube.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			var saw []string
			exists, ready := false, false
			for _, other := range pods.Items {
				if by := metav1.GetControllerOf(&other); by != nil && by.UID == owner.UID {
					exists = exists || other.UID == pod.UID
					ready = ready || other.UID != pod.UID && isReady(&other)
					saw = append(saw, podState(&other))
				}
			}
			return ready && !exists, strings.Join(saw, "; "), nil
		})
}

// user sends one request after the other in an offloaded namespace, and records the state that the
// namespace must have as a result.
type user struct {
	o       offload
	random  *rand.Rand
	cancel  context.CancelFunc
	stopped chan struct{}

	mutex              sync.Mutex
	requests, refusals int
	last               error
	// replicas has the expected replicas of each Deployment, and pods the UIDs of the existing pods
	// by name. After a request with an unknown outcome, replicas has no entry for the Deployment,
	// and the entry of the pod is nil.
	replicas map[string]int32
	pods     map[string]*types.UID
	jobs     []string
	// disturbed has the Jobs of which the user deleted a pod.
	disturbed sets.Set[string]
	// wrong lists violations: a pod whose terminal phase changed, or a local pod of a Job that had
	// two remote pods.
	wrong []string
}

const (
	deployments = 3
	completions = 2
)

func startUser(t *testing.T, o offload, random *rand.Rand) *user {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	u := &user{o: o, random: random, cancel: cancel, stopped: make(chan struct{}), replicas: map[string]int32{},
		pods: map[string]*types.UID{}, disturbed: sets.New[string]()}
	for i := range deployments {
		name := fmt.Sprintf("web-%d", i)
		runDeployment(t, o.namespace, name, 1, podSpec("serve"))
		u.replicas[name] = 1
	}
	u.watchPhases(t, rome, o.namespace)
	u.watchPhases(t, milan, o.remote)
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
			// It uses the context of the test, so that stopping the user interrupts no request. An
			// interrupted request would have an unknown outcome.
			err := u.request(t.Context(), i)
			u.mutex.Lock()
			u.requests++
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

// watchPhases records a violation if a terminated pod changes its phase, or if a cluster has two
// pods for one local pod that must not be restarted.
func (u *user) watchPhases(t *testing.T, c *harness.Cluster, namespace string) {
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
				u.complain("%s was created on %s twice, as %s and %s", pod.Name, c.Name, first, pod.UID)
			}
			origins[origin] = pod.UID
		},
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.Pod), after.(*corev1.Pod)
			if was.UID == is.UID && was.Status.Phase != is.Status.Phase &&
				(was.Status.Phase == corev1.PodSucceeded || was.Status.Phase == corev1.PodFailed) {
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

// request sends the i-th request, chosen at random. It fails if the API server refuses the request.
func (u *user) request(ctx context.Context, i int) error {
	switch u.random.IntN(5) {
	case 0, 1:
		name, replicas := fmt.Sprintf("web-%d", u.random.IntN(deployments)), int32(u.random.IntN(4))
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		deployment, err := rome.Kube.AppsV1().Deployments(u.o.namespace).Patch(ctx, name, types.MergePatchType, patch,
			metav1.PatchOptions{})
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
			Spec: batchv1.JobSpec{Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](completions),
				BackoffLimit:         ptr.To[int32](1),
				PodReplacementPolicy: ptr.To(batchv1.Failed), Template: corev1.PodTemplateSpec{Spec: spec}},
		}, metav1.CreateOptions{})
		if err == nil {
			u.jobs = append(u.jobs, name)
		}
		return err
	case 3:
		// One pod of each Job is deleted, so that the Job does not exceed its backoff limit.
		if len(u.jobs) == 0 || u.disturbed.Has(u.jobs[len(u.jobs)-1]) {
			return nil
		}
		name := u.jobs[len(u.jobs)-1]
		pods, err := rome.Kube.CoreV1().Pods(u.o.namespace).List(ctx,
			metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		u.disturbed.Insert(name)
		return rome.Kube.CoreV1().Pods(u.o.namespace).Delete(ctx, pods.Items[u.random.IntN(len(pods.Items))].Name,
			metav1.DeleteOptions{})
	default:
		// Names are reused, as a StatefulSet does.
		name := fmt.Sprintf("single-%d", u.random.IntN(2))
		if _, exists := u.pods[name]; exists {
			err := rome.Kube.CoreV1().Pods(u.o.namespace).Delete(ctx, name, metav1.DeleteOptions{})
			switch {
			case err == nil, apierrors.IsNotFound(err):
				delete(u.pods, name)
			case lost(err):
				u.pods[name] = nil
			}
			return err
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec: podSpec("serve")}
		pod, err := rome.Kube.CoreV1().Pods(u.o.namespace).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			// The earlier pod of this name is still terminating.
			return nil
		case err == nil:
			u.pods[name] = &pod.UID
		case lost(err):
			u.pods[name] = nil
		}
		return err
	}
}

// lost reports whether a failed request may have succeeded on the server.
func lost(err error) bool {
	return err != nil && (apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err))
}

// reach waits until the user has sent a number of further requests.
func (u *user) reach(t *testing.T, more int) {
	t.Helper()
	u.mutex.Lock()
	goal := u.requests + more
	u.mutex.Unlock()
	eventually(t, soon, fmt.Sprintf("%d more requests", more), func(context.Context) (bool, string, error) {
		u.mutex.Lock()
		defer u.mutex.Unlock()
		return u.requests >= goal, fmt.Sprintf("%d of %d", u.requests, goal), nil
	})
}

func (u *user) stop() {
	u.cancel()
	<-u.stopped
}

// isServed waits until the namespace has the requested Deployments and pods, all Jobs are complete,
// and the remote namespace has the same pods.
func (u *user) isServed(t *testing.T) {
	t.Helper()
	for name, replicas := range u.replicas {
		eventually(t, calm, fmt.Sprintf("%d replicas of %s/%s", replicas, u.o.namespace, name),
			func(ctx context.Context) (bool, string, error) {
				d, err := rome.Kube.AppsV1().Deployments(u.o.namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				return hasRolledOut(d, replicas), show(d.Status), nil
			})
	}
	for _, name := range u.jobs {
		eventually(t, calm, fmt.Sprintf("%d completions of %s/%s", completions, u.o.namespace, name),
			func(ctx context.Context) (bool, string, error) {
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
		eventually(t, calm, fmt.Sprintf("pod %s/%s to be Ready", u.o.namespace, name),
			func(ctx context.Context) (bool, string, error) {
				pod, err := rome.Kube.CoreV1().Pods(u.o.namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				if pod.UID != *uid {
					return false, "", harness.Permanent(fmt.Errorf("it was replaced: uid %s, want %s", pod.UID, *uid))
				}
				return isReady(pod), podState(pod), nil
			})
	}
	// Pods are compared repeatedly, because deleted pods may still be terminating.
	eventually(t, calm, u.o.namespace+" and "+u.o.remote+" to hold the same pods",
		func(ctx context.Context) (bool, string, error) {
			local, going, err := living(ctx, rome, u.o.namespace)
			if err != nil {
				return false, "", err
			}
			remote, goingRemote, err := living(ctx, milan, u.o.remote)
			if err != nil {
				return false, "", err
			}
			going = append(going, goingRemote...)
			diff := cmp.Diff(remote, local)
			return diff == "" && len(going) == 0, fmt.Sprintf("going: %v; (-milan +rome):\n%s", going, diff), nil
		})
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.wrong) > 0 {
		t.Errorf("pods of %s: %s", u.o.namespace, strings.Join(u.wrong, "; "))
	}
}

// wanderer is a Deployment in a namespace that is offloaded and unoffloaded repeatedly, so that its
// pods move between the clusters.
type wanderer struct {
	o       offload
	cancel  context.CancelFunc
	stopped chan struct{}
	turns   int
}

const wandering = 2 // the number of pods

// evicting is the spec of an offloading that evicts local pods, so that they move to the provider.
var evicting = v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote, Enforcement: v1alpha1.Evict}

func startWanderer(t *testing.T) *wanderer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &wanderer{o: offloaded(t, evicting), cancel: cancel, stopped: make(chan struct{})}
	runDeployment(t, w.o.namespace, "web", wandering, podSpec("serve"))
	pace := time.NewTicker(5 * time.Second)
	go func() {
		defer close(w.stopped)
		defer pace.Stop()
		for ctx.Err() == nil {
			// A refused request is repeated. It uses the context of the test, so that stopping
			// interrupts no request.
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

// turn unoffloads the namespace if it is offloaded, and offloads it otherwise. turned is false if
// it sent no request, because the namespace is still being unoffloaded.
func (w *wanderer) turn(ctx context.Context) (turned bool, err error) {
	client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(w.o.namespace)
	nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.CreateOffload(ctx, v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{Spec: evicting},
			metav1.CreateOptions{})
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

// isUnoffloaded unoffloads the namespace and waits until its pods run on rome and the remote namespace
// is gone.
func (w *wanderer) isUnoffloaded(t *testing.T) {
	t.Helper()
	w.stop()
	t.Logf("%s was unoffloaded and offloaded again: %d turns", w.o.namespace, w.turns)
	if w.turns == 0 {
		t.Error("it was never unoffloaded")
	}
	eventually(t, calm, w.o.namespace+" to be unoffloaded", func(ctx context.Context) (bool, string, error) {
		client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(w.o.namespace)
		if err := client.Delete(ctx, v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return false, fmt.Sprint(err), nil
		}
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, w.o.remote, metav1.GetOptions{})
		return gone(err)
	})
	eventually(t, calm, "the pods of "+w.o.namespace+" to be on rome", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(w.o.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		var saw []string
		local := 0
		for _, pod := range pods.Items {
			if saw = append(saw, podState(&pod)); isReady(&pod) && pod.Spec.NodeName != virtualNode {
				local++
			}
		}
		return local == wandering && len(saw) == wandering, strings.Join(saw, "; "), nil
	})
}

func hasRolledOut(d *appsv1.Deployment, replicas int32) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == replicas &&
		d.Status.ReadyReplicas == replicas && *d.Spec.Replicas == replicas
}

// living returns the running and pending pods by name, and the names of the pods that are being
// deleted.
func living(ctx context.Context, c *harness.Cluster, namespace string) (pods map[string]seen,
	going []string, err error) {
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
			pods[pod.Name] = comparableStatus(&pod)
		}
	}
	return pods, going, nil
}
