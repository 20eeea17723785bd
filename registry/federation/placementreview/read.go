// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placementreview

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	// controllerAccount is the ServiceAccount of the federation-controller-manager, which creates the pods of moves.
	controllerAccount = "federation-controller-manager"
	// maxClaims is the maximum number of claims of a reviewed pod. It exceeds the number of volumes that a node can
	// mount.
	maxClaims = 256
)

// Reader reads the objects that determine the placement of a pod. NamespaceOffloadings and VirtualNodes come from a
// cache, which can be read while the etcd of the federation API is unavailable. Claims, volumes and StorageClasses are
// read from kube-apiserver, because a claim may have been created only milliseconds before its pod.
type Reader struct {
	client       kubernetes.Interface
	federation   versioned.Interface
	offloadings  listers.NamespaceOffloadingLister
	virtualNodes listers.VirtualNodeLister
	synced       []func() bool
	controllers  string
}

// NewReader returns a Reader. client is a client of kube-apiserver, federation is a client of the federation API, and
// informers are informers of that API, which the caller starts. namespace is the installation namespace.
func NewReader(
	client kubernetes.Interface, federation versioned.Interface, informers externalversions.SharedInformerFactory,
	namespace string,
) Reader {
	offloadings := informers.Federation().V1alpha1().NamespaceOffloadings()
	virtualNodes := informers.Federation().V1alpha1().VirtualNodes()
	return Reader{
		client:       client,
		federation:   federation,
		offloadings:  offloadings.Lister(),
		virtualNodes: virtualNodes.Lister(),
		synced:       []func() bool{offloadings.Informer().HasSynced, virtualNodes.Informer().HasSynced},
		controllers:  serviceaccount.MakeUsername(namespace, controllerAccount),
	}
}

// read returns the objects that determine the placement of a pod. It fails with ServiceUnavailable until the caches are
// synced, with BadRequest if the pod mounts more than maxClaims claims, and with InternalError if an object cannot be
// read.
func (r Reader) read(
	ctx context.Context, request *admissionv1.AdmissionRequest, pod *corev1.Pod,
) (placement.Input, error) {
	if slices.ContainsFunc(r.synced, func(synced func() bool) bool { return !synced() }) {
		return placement.Input{}, apierrors.NewServiceUnavailable("NamespaceOffloadings are not cached yet: retry")
	}
	input := placement.Input{
		Namespace: request.Namespace, Pod: pod, CreatedByControllers: request.UserInfo.Username == r.controllers,
	}
	var err error
	if input.Offloading, err = r.offloading(ctx, request.Namespace); err != nil {
		return placement.Input{}, apierrors.NewInternalError(err)
	}
	virtualNodes, err := r.virtualNodes.List(labels.Everything())
	if err != nil {
		return placement.Input{}, apierrors.NewInternalError(fmt.Errorf("listing virtual nodes: %w", err))
	}
	input.Offering = func(class string) []string { return offering(virtualNodes, class) }
	input.Claims, err = r.claimsOf(ctx, request.Namespace, pod)
	return input, err
}

// offloading returns the NamespaceOffloading of a namespace; nil if it does not exist. If it is not cached, it may be
// new, and is read from the federation API.
func (r Reader) offloading(ctx context.Context, namespace string) (*v1alpha1.NamespaceOffloading, error) {
	const name = v1alpha1.NamespaceOffloadingName
	offloading, err := r.offloadings.NamespaceOffloadings(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		stored := r.federation.FederationV1alpha1().NamespaceOffloadings(namespace)
		offloading, err = stored.Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NamespaceOffloading %s/%s: %w", namespace, name, err)
	}
	return offloading, nil
}

// offering returns the sorted IDs of the clusters that offer a StorageClass.
func offering(virtualNodes []*v1alpha1.VirtualNode, class string) []string {
	ids := []string{}
	for _, virtualNode := range virtualNodes {
		if slices.Contains(virtualNode.Status.StorageClasses, class) {
			ids = append(ids, virtualNode.Spec.ClusterID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// claimsOf returns the claims that a pod mounts, in the order of its volumes. It fails with BadRequest if there are
// more than maxClaims, and with InternalError if an object cannot be read.
func (r Reader) claimsOf(ctx context.Context, namespace string, pod *corev1.Pod) ([]placement.Claim, error) {
	read := claimReader{Reader: r, namespace: namespace, provisioners: map[string]string{}}
	names := sets.New[string]()
	var claims []placement.Claim
	for _, mounted := range pod.Spec.Volumes {
		claim := placement.Claim{Name: mounted.Name}
		switch {
		case mounted.PersistentVolumeClaim != nil:
			claim.Name = mounted.PersistentVolumeClaim.ClaimName
			if names.Has(claim.Name) {
				continue
			}
			names.Insert(claim.Name)
		case mounted.Ephemeral != nil && mounted.Ephemeral.VolumeClaimTemplate != nil:
			template := mounted.Ephemeral.VolumeClaimTemplate
			claim.Object = &corev1.PersistentVolumeClaim{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		default:
			continue
		}
		if len(claims) == maxClaims {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the pod mounts too many claims: must be at most %d", maxClaims))
		}
		if err := read.complete(ctx, &claim); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// claimReader reads the claims of one pod, and each StorageClass only once.
type claimReader struct {
	Reader
	namespace string
	// provisioners has the provisioners of the StorageClasses that were read, by class name. A class that does not exist
	// has an empty provisioner.
	provisioners map[string]string
}

// complete sets the claim's object, PersistentVolume and provisioner. Fields of objects that do not exist stay empty.
// The claim of an ephemeral volume has its object already and no PersistentVolume yet.
func (r claimReader) complete(ctx context.Context, claim *placement.Claim) error {
	if claim.Object == nil {
		object, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading claim %q: %w", claim.Name, err)
		}
		claim.Object = object
		if claim.Volume, err = r.volume(ctx, object.Spec.VolumeName); err != nil {
			return err
		}
	}
	class := storagehelpers.GetPersistentVolumeClaimClass(claim.Object)
	if class == "" {
		return nil
	}
	provisioner, found := r.provisioners[class]
	if !found {
		object, err := r.client.StorageV1().StorageClasses().Get(ctx, class, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading storage class %q of claim %q: %w", class, claim.Name, err)
		}
		if err == nil {
			provisioner = object.Provisioner
		}
		r.provisioners[class] = provisioner
	}
	claim.Provisioner = provisioner
	return nil
}

// volume returns a PersistentVolume; nil if name is empty or the object does not exist.
func (r claimReader) volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if name == "" {
		return nil, nil
	}
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading volume %q: %w", name, err)
	}
	return volume, nil
}
