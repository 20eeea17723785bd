// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"crypto/sha256"
	"encoding/hex"
	"math"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

const (
	// localFigure is the capacity that is published for local nodes, in bytes. It is larger than maxRemoteFigure, so that
	// the scheduler prefers local nodes. It is not measured: a local CSI driver refuses a volume that does not fit.
	localFigure int64 = 1 << 60
	// maxRemoteFigure is the largest capacity that is published for a provider, in bytes.
	maxRemoteFigure int64 = 1 << 59
	// capacityHashLength is the number of hexadecimal digits in the names of CSIStorageCapacity objects.
	capacityHashLength = 16
)

// grant is the storage that a provider offers, and this cluster's usage of it.
type grant struct {
	clusterID string
	classes   []string
	// quota holds the limits of the offer. A resource that it does not list has no limit.
	quota corev1.ResourceList
	used  usage
	// refused is the size in bytes of a claim that the provider refused; zero means none.
	refused int64
}

// usage is the usage of a provider's storage by volumes of this cluster: their number, and their size in bytes in total
// and by StorageClass of the provider.
type usage struct {
	claims, storage int64
	byClass         map[string]int64
}

// remaining returns how many bytes the next claim of a StorageClass of the provider may request.
func (g grant) remaining(class string) int64 {
	left := maxRemoteFigure
	bound := func(name corev1.ResourceName, used int64) {
		if quantity, ok := g.quota[name]; ok {
			left = min(left, quantity.Value()-used)
		}
	}
	bound(corev1.ResourceRequestsStorage, g.used.storage)
	bound(corev1.ResourceName(class+".storageclass.storage.k8s.io/requests.storage"), g.used.byClass[class])
	if claims, ok := g.quota[corev1.ResourcePersistentVolumeClaims]; ok && claims.Value() <= g.used.claims {
		left = 0
	}
	if g.refused > 0 {
		left = min(left, g.refused-1)
	}
	return max(left, 0)
}

// usageOf returns the usage of each provider's storage, by cluster id.
func usageOf(volumes []corev1.PersistentVolume) map[string]usage {
	all := map[string]usage{}
	for i := range volumes {
		handle, isRemote, err := volume.HandleOf(&volumes[i])
		if err != nil || !isRemote {
			continue
		}
		used := all[handle.ClusterID]
		if used.byClass == nil {
			used.byClass = map[string]int64{}
		}
		size := volumes[i].Spec.Capacity.Storage().Value()
		used.claims++
		used.storage = saturatingAdd(used.storage, size)
		class := volumes[i].Annotations[volume.AnnotationStorageClass]
		used.byClass[class] = saturatingAdd(used.byClass[class], size)
		all[handle.ClusterID] = used
	}
	return all
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// grants returns one grant for each provider with storage classes, from its virtual nodes. Virtual nodes of one offer
// share its quota, which is counted once.
func grants(virtualNodes []v1alpha1.VirtualNode, used map[string]usage, refused map[string]int64) []grant {
	var all []grant
	index := map[string]int{}
	offers := map[string]bool{}
	for i := range virtualNodes {
		node := &virtualNodes[i]
		id := node.Spec.ClusterID
		if len(node.Status.StorageClasses) == 0 || !node.DeletionTimestamp.IsZero() {
			continue
		}
		at, known := index[id]
		if !known {
			at = len(all)
			index[id] = at
			all = append(all, grant{
				clusterID: id, classes: node.Status.StorageClasses, quota: node.Status.Storage.DeepCopy(),
				used: used[id], refused: refused[id],
			})
		} else if !offers[id+"/"+node.Spec.OfferName] {
			for name, quantity := range node.Status.Storage {
				sum := all[at].quota[name]
				sum.Add(quantity)
				all[at].quota[name] = sum
			}
		}
		offers[id+"/"+node.Spec.OfferName] = true
	}
	return all
}

// capacities returns the CSIStorageCapacity objects: for each virtual StorageClass one for all local nodes, and one for
// each provider that offers a StorageClass for it.
func capacities(classes []storagev1.StorageClass, all []grant, namespace string) []*storagev1.CSIStorageCapacity {
	var wanted []*storagev1.CSIStorageCapacity
	for i := range classes {
		class := &classes[i]
		if !isVirtual(class) {
			continue
		}
		wanted = append(wanted, capacity(class.Name, "", localFigure, namespace))
		for _, grant := range all {
			used, err := volume.RemoteClass(&corev1.PersistentVolumeClaim{},
				class.Parameters[v1alpha1.ParameterLocalStorageClass], grant.classes)
			if err != nil {
				continue
			}
			wanted = append(wanted, capacity(class.Name, grant.clusterID, grant.remaining(used), namespace))
		}
	}
	return wanted
}

// capacity returns the CSIStorageCapacity of a virtual StorageClass on the virtual nodes of the provider with this
// cluster id, or on the local nodes if the id is empty.
func capacity(class, clusterID string, bytes int64, namespace string) *storagev1.CSIStorageCapacity {
	topology := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.LabelType, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.TypeVirtualNode},
	}}}
	if clusterID != "" {
		topology = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelRemoteClusterID: clusterID}}
	}
	sum := sha256.Sum256([]byte(class + "/" + clusterID))
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Name: "liqo-" + hex.EncodeToString(sum[:])[:capacityHashLength], Namespace: namespace,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		NodeTopology:     topology,
		StorageClassName: class,
		Capacity:         resource.NewQuantity(bytes, resource.BinarySI),
	}
}
