// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/plan"
	"liqo.io/federation/apiserver/podspec"
)

// BoundLocally returns the number of unfinished pods in a namespace, of at most maxPods, that mount a claim whose
// StorageClass is not the virtual one. The data of such a claim can be used only in the local cluster.
func (r Reader) BoundLocally(ctx context.Context, namespace string) (int, error) {
	pods, _, err := r.pods(ctx, namespace)
	if err != nil {
		return 0, err
	}
	claims, err := r.claims(ctx, namespace, pods)
	count := 0
	for _, pod := range pods {
		if claims.BindLocally(pod) {
			count++
		}
	}
	return count, err
}

// AffectedVolumes returns the volumes of a namespace that are stored by providers which the spec before selects and the
// spec after does not, and what happens to each of them. A nil after selects no provider.
func (r Reader) AffectedVolumes(
	ctx context.Context, namespace string, before, after *federation.NamespaceOffloadingSpec,
) ([]federation.PlannedVolume, error) {
	volumes, err := r.volumes(ctx, namespace)
	if err != nil || !slices.ContainsFunc(volumes, isRemote) {
		return nil, err
	}
	plan, err := r.Offload(ctx, namespace, before, after)
	if err != nil {
		return nil, err
	}
	return plan.Volumes, nil
}

// StoredBy returns the sorted namespace/name of all VirtualVolumes whose data a ForeignCluster stores.
func (r Reader) StoredBy(ctx context.Context, cluster string) ([]string, error) {
	volumes, err := r.volumes(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, volume := range volumes {
		if isRemote(volume) && volume.Status.Location.ClusterName == cluster {
			names = append(names, volume.Namespace+"/"+volume.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func isRemote(volume federation.VirtualVolume) bool {
	return volume.Status.Location != nil && volume.Status.Location.ClusterName != ""
}

// claims returns the claims of a namespace and all StorageClasses. It reads nothing if no pod mounts a claim.
func (r Reader) claims(ctx context.Context, namespace string, pods []*corev1.Pod) (plan.Claims, error) {
	if !slices.ContainsFunc(pods, podspec.MountsClaims) {
		return plan.Claims{}, nil
	}
	claims, err := r.Kube.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Claims{}, unread("the claims", err)
	}
	classes, err := r.Kube.StorageV1().StorageClasses().List(ctx, fromCache())
	if err != nil {
		return plan.Claims{}, unread("the storage classes", err)
	}
	return plan.Claims{Claims: pointers(claims.Items), Classes: pointers(classes.Items)}, nil
}

func (r Reader) volumes(ctx context.Context, namespace string) ([]federation.VirtualVolume, error) {
	obj, err := r.Volumes.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.VirtualVolumeList).Items, nil
}

func (r Reader) externalVolumes(ctx context.Context, namespace string) ([]*v1alpha1.VirtualVolume, error) {
	volumes, err := r.volumes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	external := make([]*v1alpha1.VirtualVolume, 0, len(volumes))
	for i := range volumes {
		one := &v1alpha1.VirtualVolume{}
		if err := v1alpha1.Convert_federation_VirtualVolume_To_v1alpha1_VirtualVolume(&volumes[i], one, nil); err != nil {
			return nil, err
		}
		external = append(external, one)
	}
	return external, nil
}

// policies returns spec.volumes.onUnoffload of each offloaded namespace, by the name of the namespace.
func (r Reader) policies(ctx context.Context) (map[string]v1alpha1.UnoffloadPolicy, error) {
	ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceAll)
	obj, err := r.Offloadings.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	policies := map[string]v1alpha1.UnoffloadPolicy{}
	for _, offloading := range obj.(*federation.NamespaceOffloadingList).Items {
		policies[offloading.Namespace] = v1alpha1.UnoffloadPolicy(offloading.Spec.Volumes.OnUnoffload)
	}
	return policies, nil
}

// maxListed is the maximum number of names in a warning.
const maxListed = 10

// Listed returns the first maxListed names as text, and the number of omitted ones.
func Listed(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}
