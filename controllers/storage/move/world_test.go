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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
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

// world is a cluster with a StatefulSet of one replica. settle does the work of Kubernetes' controllers.
type world struct {
	t          *testing.T
	kube       *kittest.Cluster
	controller *Reconciler
	provider   *federation.Clientset
	// killWhen is the phase after whose record the process of the controller ends; empty means never.
	killWhen v1alpha1.MovePhase
	// noStatefulSet means that no controller creates pods and claims again.
	noStatefulSet bool
	// report is the final report of the sender. If log is set, the sender does not end and has this log.
	report mover.Report
	log    string
	// unbound is the name of a claim that Kubernetes does not bind; empty means none.
	unbound string
	// ungated means that pods get no scheduling gate.
	ungated bool
	// refused has the errors for the creation of objects, by name. unevicted is the error of each eviction.
	refused   map[string]error
	unevicted error
	// refusedPatches has the errors for patches, by the name of the object.
	refusedPatches map[string]error
	// repeated has the objects that were created again although they existed.
	repeated []string
	// unused means that milan reports of each volume with a fence that no pod uses it.
	unused bool
	// keptSource means that the source is retained after the move.
	keptSource bool
	// remoteTarget means that the target volume is on milan.
	remoteTarget bool
	// dead means that the process of the controller ended, and all its further writes fail.
	dead bool
	// uids is the number of UIDs that number has set.
	uids int
}

type peers struct{ *world }

func (p peers) Get(string) (*remote.Peer, bool) {
	return &remote.Peer{Clients: &remote.Clients{Federation: p.provider}}, p.provider != nil
}

func newWorld(t *testing.T, spec v1alpha1.MoveSpec) *world {
	t.Helper()
	w := &world{
		t: t,
		report: mover.Report{State: mover.StateDone, Passes: 2, BytesTotal: 100, BytesCopied: 100, FilesTotal: 3,
			FilesCopied: 3},
	}
	class := "liqo"
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.ForeignClusterSpec{ClusterID: "9f1c"}},
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
				StorageClassName: &class, VolumeName: sourceName,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		w.volume(sourceName, types.NamespacedName{Namespace: namespace, Name: claimName}, "claim-0"),
		&v1alpha1.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: namespace, UID: "volume"},
			Spec:       v1alpha1.VirtualVolumeSpec{Move: &v1alpha1.RequestedMove{ID: moveID, MoveSpec: spec}},
		},
	}
	w.kube = kittest.New(t, objects...)
	w.kube.Fault = w.fault
	w.restart()
	return w
}

// volume returns a volume of the virtual StorageClass that a local driver provisioned.
func (w *world) volume(name string, claim types.NamespacedName, uid types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{
			volume.AnnotationStorageClass: "local", volume.AnnotationReclaimPolicy: "Delete",
		}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "liqo", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: uid},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// restart starts a new process of the controller, without state in memory.
func (w *world) restart() {
	w.dead = false
	w.controller = &Reconciler{
		Client: interceptor.NewClient(w.kube.Controller, interceptor.Funcs{Create: w.create, SubResourceCreate: w.evict}),
		Live:   w.kube, Events: w.kube.Events, Clock: w.kube.Clock, Peers: peers{w},
		Mover:   Mover{Image: "liqo.io/federation-mover:dev"},
		Account: "federation-controller-manager", AccountNamespace: "liqo",
		Logs: func(context.Context, types.NamespacedName) (string, error) { return w.log, nil },
	}
}

// fault returns the errors in refused and unevicted, and the errors of authorize. It ends the process after the write
// that records the phase killWhen.
func (w *world) fault(write kittest.Write, done bool) error {
	switch {
	case w.dead:
		return kittest.ErrKilled
	case done && w.killWhen != "" && write.Verb == "patch status" &&
		w.virtualVolume().Status.Move.Phase == w.killWhen:
		w.dead = true
		return kittest.ErrKilled
	case done:
		return nil
	case write.Verb == "create eviction":
		return w.unevicted
	case write.Verb == "create" && w.refused[write.Name] != nil:
		return w.refused[write.Name]
	case write.Verb == "patch" && w.refusedPatches[write.Name] != nil:
		return w.refusedPatches[write.Name]
	case write.Verb == "delete" && write.Kind == "PersistentVolumeClaim" && write.Name == claimName &&
		get(w, claimName, &corev1.PersistentVolumeClaim{}).Annotations[volume.AnnotationMoving] == "":
		return errNotMoving
	}
	return w.authorize(write)
}

// errNotMoving is the error of the policy federation-move-objects for a claim of a user without the annotation of a
// move.
var errNotMoving = apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claimName,
	errors.New("only the claim whose data a move moves may be created and deleted"))

// authorize returns Forbidden for writes that need the ClusterRole of moves while it is not bound in the namespace.
func (w *world) authorize(write kittest.Write) error {
	resource, ok := map[string]string{
		"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets", "Service": "services",
	}[write.Kind]
	if !ok || w.kube.Has(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: write.Namespace, Name: Role}}) {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource(resource), write.Name, errors.New("the role is not bound"))
}

// create adds the protection finalizer to new claims, as the admission of Kubernetes does, and returns errNotMoving as
// the policy federation-move-objects does.
func (w *world) create(
	ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
) error {
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
		if claim.Name == claimName && claim.Annotations[volume.AnnotationMoving] == "" {
			return errNotMoving
		}
		claim.Finalizers = append(claim.Finalizers, protection)
	}
	err := c.Create(ctx, o, options...)
	if apierrors.IsAlreadyExists(err) {
		w.repeated = append(w.repeated, o.GetName())
	}
	return err
}

// evict evicts a pod, and records that its kubelet reported the end.
func (w *world) evict(
	ctx context.Context, c client.Client, sub string, o, eviction client.Object, options ...client.SubResourceCreateOption,
) error {
	if err := c.SubResource(sub).Create(ctx, o, eviction, options...); err != nil {
		return err
	}
	pod := o.(*corev1.Pod).DeepCopy()
	pod.Status.Phase = corev1.PodFailed
	w.controller.ends.deleted(pod, w.kube.Clock.Now())
	return nil
}

// number sets the UID of a pod to an unused one.
func (w *world) number(pod *corev1.Pod) {
	w.uids++
	pod.UID = types.UID(fmt.Sprintf("uid-%d", w.uids))
}

// reconcile runs the controller once and then settle. If the process ended, it starts a new one.
func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: claimName}}
	result, err := w.controller.Reconcile(w.t.Context(), request)
	if errors.Is(err, kittest.ErrKilled) || w.dead {
		w.restart()
	} else if err != nil && w.refused == nil && w.unevicted == nil && w.refusedPatches == nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	w.kube.Clock.Step(max(result.RequeueAfter, 100*time.Millisecond))
	w.settle()
	return result
}

// wait reconciles for a time that is longer than that of the other reconciles.
func (w *world) wait(duration time.Duration) {
	w.t.Helper()
	for end := w.kube.Clock.Now().Add(duration); w.kube.Clock.Now().Before(end); {
		w.reconcile()
		w.kube.Clock.Step(10 * time.Second)
	}
}

// until reconciles until the move is in this phase, and fails the test after many reconciles.
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

// store updates an object and its status.
func (w *world) store(object client.Object) {
	w.t.Helper()
	status := object.DeepCopyObject().(client.Object)
	w.must(w.kube.Status().Update(w.t.Context(), status))
	object.SetResourceVersion(status.GetResourceVersion())
	w.must(client.IgnoreNotFound(w.kube.Update(w.t.Context(), object)))
}

func get[T client.Object](w *world, name string, object T) T {
	w.t.Helper()
	return kittest.Read(w.kube, w.namespaceOf(object), name, object)
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

// settle does the work of Kubernetes' controllers, the provisioner and the kubelets.
func (w *world) settle() {
	w.t.Helper()
	for range 3 {
		w.bind()
		w.runPods()
	}
	if w.unused {
		w.reportUnused()
	}
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	return kittest.List(w.kube, &corev1.PersistentVolumeClaimList{}).Items
}

func (w *world) pods() []corev1.Pod {
	return kittest.List(w.kube, &corev1.PodList{}).Items
}

func (w *world) volumes() []corev1.PersistentVolume {
	return kittest.List(w.kube, &corev1.PersistentVolumeList{}).Items
}

// bind does the work of the provisioner and of the controller that binds volumes to claims.
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
		owner := slices.ContainsFunc(w.claims(),
			func(claim corev1.PersistentVolumeClaim) bool { return claim.UID == reference.UID })
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

// refers reports whether the claimRef of a volume has the name of this claim, and its UID or none.
func refers(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	reference := pv.Spec.ClaimRef
	return reference != nil && reference.Namespace == claim.Namespace && reference.Name == claim.Name &&
		(reference.UID == "" || reference.UID == claim.UID)
}

// matches reports whether Kubernetes binds a claim without spec.volumeName to a volume whose claimRef names it, as
// FindMatchingVolume of k8s.io/component-helpers does.
func matches(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	capacity, request := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return capacity.Cmp(request) >= 0 && pv.DeletionTimestamp.IsZero() &&
		ptr.Deref(pv.Spec.VolumeAttributesClassName, "") == ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

func (w *world) bindClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	if claim.Name == w.unbound {
		return
	}
	var own *corev1.PersistentVolume
	volumes := w.volumes()
	for i := range volumes {
		pv := &volumes[i]
		if refers(pv, claim) && (claim.Spec.VolumeName == "" && matches(pv, claim) || claim.Spec.VolumeName == pv.Name) {
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
	if claim.Labels[volume.LabelMove] != "" && own == nil && claim.Spec.VolumeName == "" &&
		claim.Name == namesOf(moveID).target &&
		slices.ContainsFunc(w.pods(), func(pod corev1.Pod) bool { return claimNames(&pod, claim.Name) }) {
		target := w.volume("pvc-"+string(claim.UID), client.ObjectKeyFromObject(claim), claim.UID)
		target.Spec.Capacity = claim.Spec.Resources.Requests
		target.Spec.VolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
		if w.remoteTarget {
			target.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{ClusterID: "9f1c", Namespace: "shop-rome",
				Claim: "move-target"})
		}
		w.must(w.kube.Create(ctx, target))
	}
	if before.Status.Phase != claim.Status.Phase || before.Spec.VolumeName != claim.Spec.VolumeName {
		w.store(claim)
	}
}

func claimNames(pod *corev1.Pod, claim string) bool { return slices.Contains(kit.ClaimsOf(pod), claim) }

// runPods does the work of the StatefulSet controller, the scheduler and the kubelets.
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
		claim.Annotations[volume.AnnotationMoving] != "" && !w.ungated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving}}
	}
	w.must(w.kube.Create(ctx, pod))
}

// runsWithoutStatefulSet creates the pod without a StatefulSet, so that no controller creates it again.
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
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db"}}, TerminationGracePeriodSeconds: ptr.To[int64](1),
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName},
			}}}},
	}
}

// nodeFor returns the node that the affinity of a pod names, or worker.
func nodeFor(pod *corev1.Pod) string {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for _, field := range required.NodeSelectorTerms[0].MatchFields {
			return field.Values[0]
		}
	}
	return "worker"
}

func (w *world) runPod(ctx context.Context, pod *corev1.Pod) {
	claim := &corev1.PersistentVolumeClaim{}
	key := types.NamespacedName{Namespace: namespace, Name: claimOf(pod)}
	if err := w.kube.Get(ctx, key, claim); err != nil || hasEnded(pod) || isGated(pod) {
		return
	}
	before := pod.DeepCopy()
	if pod.Spec.NodeName == "" && claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp.IsZero() {
		pod.Spec.NodeName = nodeFor(pod)
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

// assertBoundTo fails the test unless the claim is bound to the volume, its pods run and the move left no objects. The
// first reconcile after the end of a move, and after a restart, removes its rights.
func (w *world) assertBoundTo(name string) {
	w.t.Helper()
	for range 2 {
		w.reconcile()
	}
	if w.kube.Has(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Role}}) {
		w.t.Errorf("role %s is still bound", Role)
	}
	claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != name {
		w.t.Errorf("the claim is %s with volume %q, want Bound with %s", claim.Status.Phase, claim.Spec.VolumeName, name)
	}
	if id := claim.Annotations[volume.AnnotationMoving]; id != "" {
		w.t.Errorf("the claim still has the annotation of move %s", id)
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
	for _, secret := range kittest.List(w.kube, &corev1.SecretList{}).Items {
		w.t.Errorf("secret %s is left", secret.Name)
	}
	for _, pv := range w.volumes() {
		if pv.Annotations[annotationMark] != "" {
			w.t.Errorf("volume %s is still marked", pv.Name)
		}
		policy := corev1.PersistentVolumeReclaimDelete
		if pv.Name == sourceName && w.keptSource {
			policy = corev1.PersistentVolumeReclaimRetain
		}
		if pv.Name != name && (pv.Status.Phase != corev1.VolumeReleased ||
			pv.Annotations[volume.AnnotationReclaimPolicy] != string(policy)) {
			w.t.Errorf("volume %s is %s with policy %s", pv.Name, pv.Status.Phase,
				pv.Annotations[volume.AnnotationReclaimPolicy])
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
	return v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{Local: true, NodeName: "other"}, Strategy: v1alpha1.MoveOnline,
		EvictionTimeoutSeconds: ptr.To[int32](10)}
}
