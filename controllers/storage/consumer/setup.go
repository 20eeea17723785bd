// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/move"
)

// Names of the controllers, as in the flag --controllers.
const (
	ProvisionerName    = "storage-provisioner"
	CapacityName       = "storage-capacity"
	VirtualVolumesName = "virtual-volume"
	ExpanderName       = "storage-expansion"
	ReleaserName       = "storage-release"
)

// Prepare adds the kinds that the controllers of this package read to the cache of a manager, also if some of the
// controllers are disabled. It fails if a kind cannot be cached.
func Prepare(ctx context.Context, manager ctrl.Manager) error {
	for _, object := range []client.Object{
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Node{}, &corev1.Pod{}, &storagev1.StorageClass{},
		&v1alpha1.VirtualVolume{}, &v1alpha1.VirtualNode{}, &v1alpha1.ForeignCluster{}, &v1alpha1.NamespaceMap{},
		&v1alpha1.NamespaceOffloading{},
	} {
		if _, err := manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("caching %T: %w", object, err)
		}
	}
	return nil
}

// SetupWithManager adds the provisioner to a manager.
func (p *Provisioner) SetupWithManager(manager ctrl.Manager) error {
	p.refusals = flowcontrol.NewBackOff(minRefusalDelay, maxRefusalDelay)
	waiting := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return p.waiting(ctx)
	})
	return ctrl.NewControllerManagedBy(manager).Named(ProvisionerName).
		WithOptions(kit.Options(kit.PeerWorkers)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(p.originRequest)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(p.volumeRequest)).
		Watches(&v1alpha1.VirtualVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(kit.ChangedOrDeleted(moveChanged))).
		Watches(&corev1.Node{}, waiting, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&storagev1.StorageClass{}, waiting).
		Watches(&v1alpha1.VirtualNode{}, waiting, builder.WithPredicates(storageChanged())).
		Watches(&v1alpha1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(p.mapRequests)).
		WatchesRawSource(p.Shadows.source(p.shadowRequests)).
		Complete(p)
}

// originRequest returns a request for a claim. For an intermediate claim, the request is for the user's claim.
func (p *Provisioner) originRequest(_ context.Context, object client.Object) []reconcile.Request {
	if object.GetNamespace() != p.Namespace {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}
	origin := originOf(object.(*corev1.PersistentVolumeClaim))
	if origin.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: origin}}
}

// volumeRequest returns requests for the user's claim of a volume, from the claimRef of the volume, and for the claim
// whose data a move copies from or to the volume.
func (p *Provisioner) volumeRequest(ctx context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, request := range claimOf(ctx, object) {
		var claim corev1.PersistentVolumeClaim
		if p.Client.Get(ctx, request.NamespacedName, &claim) != nil {
			// Reading from a cache fails only with NotFound, and then the claim's own event enqueues it.
			continue
		}
		requests = append(requests, p.originRequest(ctx, &claim)...)
	}
	return requests
}

// waiting returns requests for the claims that wait to be provisioned on a selected node.
func (p *Provisioner) waiting(ctx context.Context) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	if p.Client.List(ctx, &claims) != nil {
		// Listing from a cache fails only before it is filled.
		return nil
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Namespace != p.Namespace && waits(claim) && claim.Annotations[volume.AnnotationSelectedNode] != "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
		}
	}
	return requests
}

// mapRequests starts watches of the remote namespaces in a NamespaceMap that are ready, and stops watches of those that
// no longer exist. Without these watches, the ShadowVolumeClaim of a local claim that was deleted before the
// ShadowVolumeClaim was cached would not be found. It returns requests for all claims that wait.
func (p *Provisioner) mapRequests(ctx context.Context, object client.Object) []reconcile.Request {
	mapped := object.(*v1alpha1.NamespaceMap)
	if mapped.Name != p.ClusterName || !naming.IsPeerNamespace(mapped.Namespace) {
		return nil
	}
	cluster, present := naming.ForeignClusterOf(mapped.Namespace), map[string]bool{}
	for _, answer := range mapped.Status.Namespaces {
		present[answer.RemoteName] = true
		if answer.Phase != v1alpha1.NamespaceMappingReady {
			continue
		}
		if err := p.Shadows.Watch(place{cluster, answer.RemoteName}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Watching a remote namespace failed",
				"foreignCluster", cluster, "remoteNamespace", answer.RemoteName)
		}
	}
	p.Shadows.Keep(cluster, present)
	return p.waiting(ctx)
}

// shadowRequests returns requests for the claim that a ShadowVolumeClaim was created for, and for the claim in the
// claimRef of its local PersistentVolume, which is another one after a move.
func (c *Config) shadowRequests(ctx context.Context, kept shadow) []reconcile.Request {
	var requests []reconcile.Request
	name := types.NamespacedName{
		Namespace: kept.Annotations[v1alpha1.AnnotationOriginNamespace], Name: kept.Annotations[volume.AnnotationOriginClaim],
	}
	if name.Namespace != "" && name.Name != "" {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	if pv := c.shadowVolume(ctx, kept); pv != nil {
		requests = append(requests, claimOf(ctx, pv)...)
	}
	return requests
}

// shadowVolume returns the local PersistentVolume of a ShadowVolumeClaim, or nil if there is none.
func (c *Config) shadowVolume(ctx context.Context, kept shadow) *corev1.PersistentVolume {
	handle, err := c.handleOf(ctx, kept)
	var volumes corev1.PersistentVolumeList
	if err != nil || c.Client.List(ctx, &volumes) != nil {
		return nil
	}
	for i := range volumes.Items {
		if current, isRemote, err := volume.HandleOf(&volumes.Items[i]); err == nil && isRemote && current == handle {
			return &volumes.Items[i]
		}
	}
	return nil
}

// moveChanged reports whether a move of a virtual volume started or ended.
func moveChanged(old, current *v1alpha1.VirtualVolume) bool { return moving(old) != moving(current) }

// storageChanged selects events in which the storage classes, the storage quota or the deletion of a virtual node
// changed.
func storageChanged() predicate.Predicate {
	text := func(object client.Object) string {
		node := object.(*v1alpha1.VirtualNode)
		return fmt.Sprint(node.Status.StorageClasses, quotaText(node.Status.Storage), node.DeletionTimestamp)
	}
	return kit.Changed(func(old, current client.Object) bool { return text(old) != text(current) })
}

// NewPublished returns a cache of the objects that Capacity publishes in a namespace, and adds it to a manager. It does
// not contain CSIStorageCapacity objects of other drivers.
func NewPublished(manager ctrl.Manager, namespace string) (cache.Cache, error) {
	return kit.NewCache(manager, map[client.Object]cache.ByObject{
		&storagev1.CSIStorageCapacity{}: {
			Namespaces: map[string]cache.Config{namespace: {}},
			Label:      labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
		},
		&storagev1.CSIDriver{}: {Field: fields.OneTermEqualSelector("metadata.name", v1alpha1.StorageProvisioner)},
	})
}

// SetupWithManager adds the controller to a manager.
func (c *Capacity) SetupWithManager(manager ctrl.Manager) error {
	once := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: v1alpha1.StorageProvisioner}}}
	}
	all := handler.EnqueueRequestsFromMapFunc(once)
	return ctrl.NewControllerManagedBy(manager).Named(CapacityName).WithOptions(kit.Options(1)).
		Watches(&storagev1.StorageClass{}, all).
		Watches(&v1alpha1.VirtualNode{}, all, builder.WithPredicates(storageChanged())).
		Watches(&corev1.PersistentVolume{}, all,
			builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
				_, isRemote, err := volume.HandleOf(object.(*corev1.PersistentVolume))
				return isRemote && err == nil
			}))).
		WatchesRawSource(source.Kind[client.Object](c.Published, &storagev1.CSIStorageCapacity{}, all)).
		WatchesRawSource(source.Kind[client.Object](c.Published, &storagev1.CSIDriver{}, all)).
		Complete(c)
}

// SetupWithManager adds the controller of virtual volumes to a manager.
func (v *VirtualVolumes) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(VirtualVolumesName).
		WithOptions(kit.Options(kit.PeerWorkers)).
		For(&v1alpha1.VirtualVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(claimOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claimsOfPod)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(v.claimsOfClass)).
		Watches(&v1alpha1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(v.volumesOfCluster),
			builder.WithPredicates(conditionsChanged())).
		Watches(&v1alpha1.NamespaceOffloading{}, handler.EnqueueRequestsFromMapFunc(v.volumesOfNamespace),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(v.Shadows.source(v.shadowRequests)).
		Complete(v)
}

// claimsOfPod returns requests for the claims that a pod mounts.
func claimsOfPod(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range kit.PodClaims(object) {
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name},
		})
	}
	return requests
}

// claimOf returns requests for the claim that a volume's claimRef names, and for the claim whose data a move copies
// from or to the volume.
func claimOf(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if reference := object.(*corev1.PersistentVolume).Spec.ClaimRef; reference != nil {
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name},
		})
	}
	if claim, marked := move.ClaimOf(object); marked {
		requests = append(requests, reconcile.Request{NamespacedName: claim})
	}
	return requests
}

// claimsOfClass returns requests for the claims of a virtual StorageClass, which may be created after its claims.
func (v *VirtualVolumes) claimsOfClass(ctx context.Context, object client.Object) []reconcile.Request {
	if !isVirtual(object.(*storagev1.StorageClass)) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if v.Client.List(ctx, &claims) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		if name := claims.Items[i].Spec.StorageClassName; name != nil && *name == object.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
		}
	}
	return requests
}

// volumesOfCluster returns requests for the virtual volumes whose data the cluster of a ForeignCluster stores.
func (v *VirtualVolumes) volumesOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	return v.volumes(ctx, func(described *v1alpha1.VirtualVolume) bool {
		location := described.Status.Location
		return location != nil && (location.ClusterName == object.GetName() ||
			location.ClusterID == object.(*v1alpha1.ForeignCluster).Spec.ClusterID)
	})
}

// volumesOfNamespace returns requests for the virtual volumes in the namespace of an object.
func (v *VirtualVolumes) volumesOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return v.volumes(ctx, func(*v1alpha1.VirtualVolume) bool { return true }, client.InNamespace(object.GetNamespace()))
}

func (v *VirtualVolumes) volumes(
	ctx context.Context, keep func(*v1alpha1.VirtualVolume) bool, options ...client.ListOption,
) []reconcile.Request {
	var all v1alpha1.VirtualVolumeList
	if v.Client.List(ctx, &all, options...) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if keep(&all.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// conditionsChanged selects updates in which the status or the reason of a ForeignCluster's condition changed.
func conditionsChanged() predicate.Predicate {
	reasons := func(object client.Object) string {
		var text string
		for _, condition := range object.(*v1alpha1.ForeignCluster).Status.Conditions {
			text += condition.Type + string(condition.Status) + condition.Reason + " "
		}
		return text
	}
	return kit.Changed(func(old, current client.Object) bool { return reasons(old) != reasons(current) })
}

// SetupWithManager adds the controller of expansions to a manager.
func (e *Expander) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(ExpanderName).WithOptions(kit.Options(kit.PeerWorkers)).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(claimOf)).
		WatchesRawSource(e.Shadows.source(e.shadowRequests)).
		Complete(e)
}

// SetupWithManager adds the controller of releases to a manager.
func (r *Releaser) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(ReleaserName).WithOptions(kit.Options(kit.PeerWorkers)).
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(volumeOf),
			builder.WithPredicates(kit.Deleted())).
		Watches(&v1alpha1.VirtualVolume{}, handler.EnqueueRequestsFromMapFunc(volumesOfMove)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.volumesOfNamespace),
			builder.WithPredicates(predicate.NewPredicateFuncs(ending))).
		WatchesRawSource(r.Shadows.source(r.shadowVolumeRequests)).
		Complete(r)
}

// ending reports whether an object is being deleted.
func ending(object client.Object) bool { return object.GetDeletionTimestamp() != nil }

// volumesOfNamespace returns requests for the volumes whose claimRef names a claim in the namespace.
func (r *Releaser) volumesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var volumes corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &volumes); err != nil {
		// Listing from a cache fails only before it is filled, and then every object causes an event.
		return nil
	}
	var requests []reconcile.Request
	for i := range volumes.Items {
		if reference := volumes.Items[i].Spec.ClaimRef; reference != nil && reference.Namespace == namespace.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: volumes.Items[i].Name}})
		}
	}
	return requests
}

// volumeOf returns a request for the volume that a claim is bound to.
func volumeOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.(*corev1.PersistentVolumeClaim).Spec.VolumeName
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// volumesOfMove returns requests for the source and the target volume of a move, which the move may have released.
func volumesOfMove(_ context.Context, object client.Object) []reconcile.Request {
	progress := object.(*v1alpha1.VirtualVolume).Status.Move
	if progress == nil {
		return nil
	}
	var requests []reconcile.Request
	for _, name := range []string{progress.Source.VolumeName, progress.Target.VolumeName} {
		if name != "" {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return requests
}

// shadowVolumeRequests returns a request for the local volume of a ShadowVolumeClaim.
func (r *Releaser) shadowVolumeRequests(ctx context.Context, kept shadow) []reconcile.Request {
	pv := r.shadowVolume(ctx, kept)
	if pv == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pv.Name}}}
}
