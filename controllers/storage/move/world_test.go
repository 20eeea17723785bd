// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/mover"
	federation "liqo.io/federation/generated/clientset/versioned/fake"
)

const (
	namespace  = "shop"
	claimName  = "data-db-0"
	appName    = "db-0"
	sourceName = "pvc-source"
	moveID     = "abcde12345"
)

// scheme has the kinds of a move alone. A fake API server of all kinds takes longer to
// start than a move.
var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}()

var errKilled = errors.New("the process was killed")

// world is a cluster with a StatefulSet of one pod, in which Kubernetes is played by
// settle. Writes of the controller can be made its last one.
type world struct {
	t *testing.T
	// kube is the API server, and client the same as the controller writes to it.
	kube, client client.Client
	clock        *clocktesting.FakeClock
	controller   *Reconciler
	events       *record.FakeRecorder
	provider     *federation.Clientset
	// killAt is the number of the write that is the last one of a process, and done
	// whether it takes effect; 0 kills none.
	killAt, writes int
	done           bool
	// killWhen is the phase whose record is the last write of a process.
	killWhen v1alpha1.MovePhase
	// noStatefulSet has no controller create pods and claims again.
	noStatefulSet bool
	// report is how the sender ends, and log what it has logged: then it goes on.
	report mover.Report
	log    string
	// refused are the errors with which objects are not created, by name, and unevicted is
	// that of each eviction.
	refused   map[string]error
	unevicted error
	// repeated are the objects that were created although they existed.
	repeated []string
	// uids are given to claims.
	uids int
}

type peers struct{ *world }

func (p peers) Get(string) (*remote.Peer, bool) {
	return &remote.Peer{Clients: &remote.Clients{Federation: p.provider}}, p.provider != nil
}

func newWorld(t *testing.T, spec v1alpha1.MoveSpec) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)),
		report: mover.Report{State: mover.StateDone, Passes: 2, BytesTotal: 100, BytesCopied: 100, FilesTotal: 3, FilesCopied: 3},
	}
	class := "liqo"
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: v1alpha1.ForeignClusterSpec{ClusterID: "9f1c"}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: claimName, Namespace: namespace, UID: "claim-0", Finalizers: []string{protection},
				Labels: map[string]string{"app": "db"},
				Annotations: map[string]string{
					"pv.kubernetes.io/bind-completed": "yes", "volume.beta.kubernetes.io/storage-provisioner": "storage.liqo.io", "team": "a",
				},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "1"}},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, VolumeName: sourceName, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		w.volume(sourceName, types.NamespacedName{Namespace: namespace, Name: claimName}, "claim-0"),
		&v1alpha1.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: namespace, UID: "volume"},
			Spec:       v1alpha1.VirtualVolumeSpec{Move: &v1alpha1.RequestedMove{ID: moveID, MoveSpec: spec}},
		},
	}
	w.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.VirtualVolume{}).Build()
	w.client = interceptor.NewClient(w.kube.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return w.write(func() error {
				if err := w.authorize(ctx, o); err != nil {
					return err
				}
				if err := w.refused[o.GetName()]; err != nil {
					return err
				}
				w.number(o)
				err := c.Create(ctx, o, options...)
				if apierrors.IsAlreadyExists(err) {
					w.repeated = append(w.repeated, o.GetName())
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return w.write(func() error {
				if err := w.authorize(ctx, o); err != nil {
					return err
				}
				return c.Delete(ctx, o, options...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			return w.write(func() error {
				if err := w.authorize(ctx, o); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, options...)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if err := w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, options...) }); err != nil {
				return err
			}
			if progress := o.(*v1alpha1.VirtualVolume).Status.Move; w.killWhen != "" && progress.Phase == w.killWhen {
				return errKilled
			}
			return nil
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			if w.unevicted != nil {
				return w.unevicted
			}
			return w.write(func() error { return w.end(o.(*corev1.Pod)) })
		},
	})
	w.restart()
	return w
}

// volume returns a volume of the virtual class that a driver of this cluster provisioned.
func (w *world) volume(name string, claim types.NamespacedName, uid types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{
			volume.AnnotationStorageClass: "local", volume.AnnotationReclaimPolicy: "Delete",
		}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "liqo", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: uid},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// restart replaces the process of the controller.
func (w *world) restart() {
	w.events = record.NewFakeRecorder(1000)
	w.controller = New(Config{
		Client: w.client, Live: w.kube, Events: w.events, Peers: peers{w}, Image: "liqo.io/federation-mover:dev", Clock: w.clock,
		Account: "federation-controller-manager", AccountNamespace: "liqo",
		Logs: func(context.Context, types.NamespacedName) (string, error) { return w.log, nil },
	})
}

// write counts a write of the controller, and kills its process at one of them.
func (w *world) write(write func() error) error {
	w.writes++
	if w.killAt != w.writes {
		return write()
	}
	if w.done {
		if err := write(); err != nil {
			return err
		}
	}
	return errKilled
}

// authorize refuses what the controller may write in the namespace only while the role of
// movers is bound there.
func (w *world) authorize(ctx context.Context, object client.Object) error {
	resource := ""
	switch object.(type) {
	case *corev1.Pod:
		resource = "pods"
	case *corev1.PersistentVolumeClaim:
		resource = "persistentvolumeclaims"
	case *corev1.Secret:
		resource = "secrets"
	case *corev1.Service:
		resource = "services"
	default:
		return nil
	}
	err := w.kube.Get(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: Role}, &rbacv1.RoleBinding{})
	if apierrors.IsNotFound(err) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, object.GetName(), errors.New("the role is not bound"))
	}
	return err
}

// number gives an object a UID, as an API server does.
func (w *world) number(object client.Object) {
	w.uids++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
		claim.Finalizers = append(claim.Finalizers, protection)
	}
}

// end ends a pod as its kubelet does.
func (w *world) end(pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodFailed
	w.controller.ends.gone(pod)
	return client.IgnoreNotFound(w.kube.Delete(w.t.Context(), pod))
}

// reconcile runs the controller once and has Kubernetes react. A killed process is
// started again.
func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: claimName}}
	result, err := w.controller.Reconcile(w.t.Context(), request)
	if errors.Is(err, errKilled) {
		w.restart()
	} else if err != nil && w.refused == nil && w.unevicted == nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	w.clock.Step(max(result.RequeueAfter, 100*time.Millisecond))
	w.settle()
	return result
}

// until reconciles until the move is at a phase, and fails after many passes.
func (w *world) until(phase v1alpha1.MovePhase) *v1alpha1.MoveProgress {
	w.t.Helper()
	var progress *v1alpha1.MoveProgress
	for range 80 {
		w.reconcile()
		progress = w.virtualVolume().Status.Move
		if progress != nil && progress.Phase == phase {
			return progress
		}
	}
	w.t.Fatalf("the move did not come to %s: %+v", phase, progress)
	return nil
}

func (w *world) virtualVolume() *v1alpha1.VirtualVolume {
	return get(w, claimName, &v1alpha1.VirtualVolume{})
}

// store writes an object with its status.
func (w *world) store(object client.Object) {
	w.t.Helper()
	status := object.DeepCopyObject().(client.Object)
	w.must(w.kube.Status().Update(w.t.Context(), status))
	object.SetResourceVersion(status.GetResourceVersion())
	w.must(client.IgnoreNotFound(w.kube.Update(w.t.Context(), object)))
}

func get[T client.Object](w *world, name string, object T) T {
	w.t.Helper()
	if err := w.kube.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespaceOf(object), Name: name}, object); err != nil {
		w.t.Fatal(err)
	}
	return object
}

func (w *world) namespaceOf(object client.Object) string {
	switch any(object).(type) {
	case *corev1.PersistentVolume, *corev1.Node:
		return ""
	}
	return namespace
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle has the controllers of Kubernetes, the provisioner and the kubelets react.
func (w *world) settle() {
	w.t.Helper()
	for range 3 {
		w.bind()
		w.runPods()
	}
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	var list corev1.PersistentVolumeClaimList
	w.must(w.kube.List(w.t.Context(), &list))
	return list.Items
}

func (w *world) pods() []corev1.Pod {
	var list corev1.PodList
	w.must(w.kube.List(w.t.Context(), &list))
	return list.Items
}

func (w *world) volumes() []corev1.PersistentVolume {
	var list corev1.PersistentVolumeList
	w.must(w.kube.List(w.t.Context(), &list))
	return list.Items
}

// bind is the controller of volumes, and the provisioner.
func (w *world) bind() {
	ctx := w.t.Context()
	claims := w.claims()
	for i := range claims {
		claim := &claims[i]
		used := slices.ContainsFunc(w.pods(), func(pod corev1.Pod) bool {
			return pod.Spec.NodeName != "" && claimNames(&pod, claim.Name)
		})
		if !claim.DeletionTimestamp.IsZero() {
			if !used && slices.Contains(claim.Finalizers, protection) {
				claim.Finalizers = nil
				w.must(client.IgnoreNotFound(w.kube.Update(ctx, claim)))
			}
			continue
		}
		w.bindClaim(ctx, claim)
	}
	volumes := w.volumes()
	for i := range volumes {
		pv := &volumes[i]
		reference := pv.Spec.ClaimRef
		owner := slices.ContainsFunc(w.claims(), func(claim corev1.PersistentVolumeClaim) bool { return claim.UID == reference.UID })
		phase := corev1.VolumeBound
		switch {
		case reference.UID == "":
			phase = corev1.VolumeAvailable
		case !owner:
			phase = corev1.VolumeReleased
		}
		if pv.Status.Phase != phase {
			pv.Status.Phase = phase
			w.store(pv)
		}
	}
}

func (w *world) bindClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	var own *corev1.PersistentVolume
	volumes := w.volumes()
	for i := range volumes {
		pv := &volumes[i]
		if refers(pv, claim) && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name) {
			own = pv
		}
	}
	before := claim.DeepCopy()
	switch {
	case own != nil:
		if own.Spec.ClaimRef.UID == "" {
			own.Spec.ClaimRef.UID = claim.UID
			w.store(own)
		}
		claim.Spec.VolumeName, claim.Status.Phase = own.Name, corev1.ClaimBound
	case claim.Status.Phase == corev1.ClaimBound:
		claim.Status.Phase = corev1.ClaimLost
	case claim.Status.Phase == "":
		claim.Status.Phase = corev1.ClaimPending
	}
	if claim.Labels[volume.LabelMove] != "" && own == nil && claim.Spec.VolumeName == "" && claim.Name == namesOf(moveID).target &&
		slices.ContainsFunc(w.pods(), func(pod corev1.Pod) bool { return claimNames(&pod, claim.Name) }) {
		w.must(w.kube.Create(ctx, w.volume("pvc-"+string(claim.UID), client.ObjectKeyFromObject(claim), claim.UID)))
	}
	if before.Status.Phase != claim.Status.Phase || before.Spec.VolumeName != claim.Spec.VolumeName {
		w.store(claim)
	}
}

func claimNames(pod *corev1.Pod, claim string) bool { return slices.Contains(kit.ClaimsOf(pod), claim) }

// runPods is the StatefulSet, the scheduler and the kubelets. The StatefulSet creates the
// claim as well if it has no pod that waits.
func (w *world) runPods() {
	ctx := w.t.Context()
	if !w.noStatefulSet && !slices.ContainsFunc(w.pods(), func(pod corev1.Pod) bool { return pod.Name == appName }) {
		w.createApp(ctx)
	}
	pods := w.pods()
	for i := range pods {
		w.runPod(ctx, &pods[i])
	}
}

func (w *world) createApp(ctx context.Context) {
	pod := podOf(appName)
	w.number(pod)
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.kube.Get(ctx, types.NamespacedName{Namespace: namespace, Name: claimName}, claim); err == nil &&
		claim.Annotations[volume.AnnotationMoving] != "" {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving}}
	}
	w.must(w.kube.Create(ctx, pod))
}

// runsWithoutStatefulSet runs the application in a pod that no controller creates again.
func (w *world) runsWithoutStatefulSet() {
	w.t.Helper()
	w.noStatefulSet = true
	pod := podOf(appName)
	w.number(pod)
	w.must(w.kube.Create(w.t.Context(), pod))
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db"}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName},
		}}}},
	}
}

func (w *world) runPod(ctx context.Context, pod *corev1.Pod) {
	claim := &corev1.PersistentVolumeClaim{}
	key := types.NamespacedName{Namespace: namespace, Name: claimOf(pod)}
	if err := w.kube.Get(ctx, key, claim); err != nil || hasEnded(pod) || isGated(pod) {
		return
	}
	before := pod.DeepCopy()
	if pod.Spec.NodeName == "" && claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp.IsZero() {
		pod.Spec.NodeName = "worker"
	}
	pv := &corev1.PersistentVolume{}
	mounts := pod.Spec.NodeName != "" && claim.Status.Phase == corev1.ClaimBound &&
		w.kube.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, pv) == nil && pv.Spec.ClaimRef.UID == claim.UID
	if mounts && pod.Status.Phase == "" {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	receiver := &corev1.Pod{}
	key = types.NamespacedName{Namespace: namespace, Name: namesOf(moveID).receiver}
	last := w.kube.Get(ctx, key, receiver) == nil && receiver.Annotations[AnnotationPass] == mover.PassFinal
	if pod.Status.Phase == corev1.PodRunning && pod.Labels[LabelRole] == roleSender && last && w.log == "" {
		message, err := json.Marshal(w.report)
		w.must(err)
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: string(message)},
		}}}
	}
	if before.Spec.NodeName != pod.Spec.NodeName || before.Status.Phase != pod.Status.Phase {
		w.store(pod)
	}
}

// assertBoundTo checks that the application runs on a volume and nothing of the move is
// left.
func (w *world) assertBoundTo(name string) {
	w.t.Helper()
	claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != name {
		w.t.Errorf("the claim is %s with volume %q, want Bound with %s", claim.Status.Phase, claim.Spec.VolumeName, name)
	}
	if id := claim.Annotations[volume.AnnotationMoving]; id != "" {
		w.t.Errorf("the claim still holds pods back for move %s", id)
	}
	for _, pod := range w.pods() {
		if pod.Name != appName || pod.Status.Phase != corev1.PodRunning {
			w.t.Errorf("pod %s is %q with gates %v", pod.Name, pod.Status.Phase, pod.Spec.SchedulingGates)
		}
	}
	for _, other := range w.claims() {
		if other.Name != claimName {
			w.t.Errorf("claim %s is left", other.Name)
		}
	}
	var secrets corev1.SecretList
	w.must(w.kube.List(w.t.Context(), &secrets))
	if len(secrets.Items) > 0 {
		w.t.Errorf("secret %s is left", secrets.Items[0].Name)
	}
	for _, pv := range w.volumes() {
		if pv.Annotations[annotationMark] != "" {
			w.t.Errorf("volume %s is still marked", pv.Name)
		}
		if pv.Name != name && (pv.Status.Phase != corev1.VolumeReleased || pv.Annotations[volume.AnnotationReclaimPolicy] != "Delete") {
			w.t.Errorf("volume %s is %s with policy %s", pv.Name, pv.Status.Phase, pv.Annotations[volume.AnnotationReclaimPolicy])
		}
		if pv.Name == name && pv.Annotations[volume.AnnotationReclaimPolicy] != "Delete" {
			w.t.Errorf("volume %s lost its reclaim policy", pv.Name)
		}
	}
}

func (w *world) targetName() string {
	for _, pv := range w.volumes() {
		if pv.Name != sourceName {
			return pv.Name
		}
	}
	w.t.Fatal("there is no target volume")
	return ""
}

func (w *world) cancel() {
	w.t.Helper()
	vv := w.virtualVolume()
	vv.Spec.Move = nil
	w.must(w.kube.Update(w.t.Context(), vv))
}

func online() v1alpha1.MoveSpec {
	return v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{Local: true, NodeName: "other"}, Strategy: v1alpha1.MoveOnline, EvictionTimeoutSeconds: ptr.To[int32](10)}
}
