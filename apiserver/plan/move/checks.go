// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

// additionalClaims is the number of claims that a move creates in the namespace: one is bound to the
// source volume, the other to the target volume.
const additionalClaims = 2

// one is the quantity of a single object.
var one = resource.NewQuantity(1, resource.DecimalSI)

// movers is the number of pods of a move that run at the same time, one at each end.
const movers = 2

// networking returns an error if the data would be copied between clusters whose pods cannot connect to
// each other.
func (r Request) networking(source, target end) field.ErrorList {
	if source.name() == target.name() {
		return nil
	}
	var errs field.ErrorList
	for _, one := range []end{source, target} {
		if one.provider == nil || one.provider.Cluster.Status.Networking == v1alpha1.PeeringEstablished {
			continue
		}
		path := targetPath
		if one.provider == target.provider {
			path = r.targetPath()
		}
		errs = append(errs, invalid(path, one.name(),
			"networking with the cluster is %s, and must be Established to copy data between pods; "+
				"kubectl get foreigncluster %s reports the reason",
			cmp.Or(one.provider.Cluster.Status.Networking, v1alpha1.PeeringNone), one.name()))
	}
	return errs
}

// placement returns errors if pods of the namespace may not run in the target cluster.
func (r Request) placement(target end) field.ErrorList {
	offloading := r.Offloading
	if offloading == nil {
		return field.ErrorList{field.Forbidden(namespacePath, "the namespace is not offloaded; "+
			"create its NamespaceOffloading first, since both ends of a copy are pods of the namespace")}
	}
	leaving := offloading.DeletionTimestamp != nil
	if target.provider == nil {
		if offloading.Spec.PodOffloadingStrategy == v1alpha1.Remote && !leaving {
			return field.ErrorList{field.Forbidden(r.targetPath(), "podOffloadingStrategy of the namespace is Remote, "+
				"so no pod could use the data in this cluster; change it first")}
		}
		return nil
	}
	name := target.name()
	switch {
	case leaving:
		return field.ErrorList{invalid(r.targetPath(), name,
			"the namespace is being unoffloaded; offload it again afterwards")}
	case offloading.Spec.PodOffloadingStrategy == v1alpha1.Local:
		return field.ErrorList{invalid(r.targetPath(), name, "podOffloadingStrategy of the namespace is Local, "+
			"so no pod could use the data on a provider; change it first")}
	}
	selector, err := placement.NewClusterSelector(offloading.Spec.ClusterSelector)
	if err != nil {
		return field.ErrorList{invalid(r.targetPath(), name, "clusterSelector of the namespace is malformed: %v", err)}
	}
	if !slices.ContainsFunc(r.usable(target.provider), func(virtualNode *v1alpha1.VirtualNode) bool {
		return selector.Selects(virtualNode, r.nodeOf(virtualNode))
	}) {
		return field.ErrorList{invalid(r.targetPath(), name, "clusterSelector of the namespace does not match the cluster; "+
			"change the selector first")}
	}
	return r.offloaded(name)
}

// offloaded returns an error unless status.clusters of the NamespaceOffloading reports a ready remote namespace on
// the provider whose ForeignCluster has the name cluster.
func (r Request) offloaded(cluster string) field.ErrorList {
	for _, one := range r.Offloading.Status.Clusters {
		if one.Name != cluster || !meta.IsStatusConditionTrue(one.Conditions, v1alpha1.ConditionOffloadingRequired) {
			continue
		}
		ready := meta.FindStatusCondition(one.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Message: "status.clusters of the NamespaceOffloading has no condition Ready of it yet."}
		}
		if ready.Status == metav1.ConditionTrue {
			return nil
		}
		return field.ErrorList{invalid(r.targetPath(), cluster, "the remote namespace is not ready; wait until it is: %s",
			ready.Message)}
	}
	return field.ErrorList{invalid(r.targetPath(), cluster, "the namespace is not offloaded to the cluster; "+
		"kubectl get namespaceoffloading offloading -o yaml reports why")}
}

// attributes returns an error if the claim has a VolumeAttributesClass, and the target is on a provider or its
// StorageClass has another driver. A VolumeAttributesClass is valid for one driver.
func (r Request) attributes(source, target end) field.ErrorList {
	class := ptr.Deref(r.Claim.Spec.VolumeAttributesClassName, "")
	switch {
	case class == "":
		return nil
	case target.provider != nil:
		return field.ErrorList{invalid(r.targetPath(), target.name(), "the claim has volumeAttributesClassName %s, which is "+
			"not supported on a provider; move the claim within this cluster only", class)}
	case source.class != "" && r.driver(target.class) != r.driver(source.class):
		return field.ErrorList{invalid(targetPath.Child("storageClassName"), target.class, "the claim has "+
			"volumeAttributesClassName %s, which is of another driver; name a StorageClass of the driver that stores the data",
			class)}
	}
	return nil
}

// driver returns the provisioner of a StorageClass; empty if the StorageClass does not exist.
func (r Request) driver(class string) string {
	if found := r.findClass(class); found != nil {
		return found.Provisioner
	}
	return ""
}

// room returns an error unless the storage that the target provider offers for a usable virtual node has room for the
// volume in addition to all virtual volumes that the provider already stores: in the number of claims, in
// requests.storage, and in the limit for the target's StorageClass. The actual usage can be higher, because the
// provider may store other claims of the local cluster.
func (r Request) room(target end) field.ErrorList {
	if target.provider == nil {
		return nil
	}
	size := r.size()
	var refusal *field.Error
	for _, virtualNode := range r.usable(target.provider) {
		refusal = r.roomAt(virtualNode, target, size)
		if refusal == nil {
			return nil
		}
	}
	if refusal == nil {
		return nil
	}
	return field.ErrorList{refusal}
}

func (r Request) roomAt(virtualNode *v1alpha1.VirtualNode, target end, size resource.Quantity) *field.Error {
	offered, stored, name := virtualNode.Status.Storage, r.Stored[target.name()], target.name()
	// exceeded returns the limit of a resource and the usage with the volume, and whether the usage is greater.
	exceeded := func(key corev1.ResourceName, added resource.Quantity) (limit, used resource.Quantity, greater bool) {
		limit, limited := offered[key]
		used = stored[key]
		used.Add(added)
		return limit, used, limited && used.Cmp(limit) > 0
	}
	if limit, used, greater := exceeded(corev1.ResourcePersistentVolumeClaims, *one); greater {
		return invalid(r.targetPath(), name, "the cluster offers %s PersistentVolumeClaims, and %s would be used; "+
			"delete or move volumes of the cluster, or have its administrator offer more", &limit, &used)
	}
	if limit, used, greater := exceeded(corev1.ResourceRequestsStorage, size); greater {
		return invalid(r.targetPath(), name, "the cluster offers %s of storage, and %s would be used with the %s of the "+
			"volume; delete or move volumes of the cluster, or have its administrator offer more", &limit, &used, &size)
	}
	if limit, used, greater := exceeded(v1alpha1.ClassStorage(target.class), size); greater {
		return invalid(r.targetPath(), name, "the cluster offers %s of class %s, and %s would be used with the %s of the "+
			"volume; request another class", &limit, target.class, &used, &size)
	}
	return nil
}

// classSuffix is the part between the name of a StorageClass and the name of a resource, for a limit in a
// ResourceQuota.
const classSuffix = ".storageclass.storage.k8s.io/"

// quotas returns an error for each ResourceQuota of the namespace that does not permit the additional
// claims, pods, Secret and Service of the move.
func (r Request) quotas() field.ErrorList {
	storage := resource.Quantity{}
	for range additionalClaims {
		storage.Add(r.size())
	}
	claims, pods := *resource.NewQuantity(additionalClaims, resource.DecimalSI), *resource.NewQuantity(movers,
		resource.DecimalSI)
	cpu, memory := resource.Quantity{}, resource.Quantity{}
	for range movers {
		cpu.Add(volume.MoverRequests()[corev1.ResourceCPU])
		memory.Add(volume.MoverRequests()[corev1.ResourceMemory])
	}
	class := ptr.Deref(r.Claim.Spec.StorageClassName, "") + classSuffix
	needed := map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceRequestsStorage:                                             storage,
		corev1.ResourcePersistentVolumeClaims:                                      claims,
		"count/persistentvolumeclaims":                                             claims,
		corev1.ResourceName(class + string(corev1.ResourceRequestsStorage)):        storage,
		corev1.ResourceName(class + string(corev1.ResourcePersistentVolumeClaims)): claims,
		corev1.ResourcePods:                                                        pods,
		"count/pods":                                                               pods,
		corev1.ResourceCPU:                                                         cpu,
		corev1.ResourceRequestsCPU:                                                 cpu,
		corev1.ResourceSecrets:                                                     *one,
		"count/secrets":                                                            *one,
		corev1.ResourceServices:                                                    *one,
		"count/services":                                                           *one,
		corev1.ResourceMemory:                                                      memory,
		corev1.ResourceRequestsMemory:                                              memory,
	}
	var errs field.ErrorList
	for _, quota := range r.Quotas {
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(needed)) {
			hard, limited := quota.Spec.Hard[name]
			if !limited {
				continue
			}
			total, more := quota.Status.Used[name], needed[name]
			total.Add(more)
			if total.Cmp(hard) > 0 {
				used := quota.Status.Used[name]
				errs = append(errs, field.Forbidden(namespacePath, fmt.Sprintf("ResourceQuota %s does not permit the move: "+
					"%s is %s of %s, and %s more are needed until the move has ended; raise it", quota.Name, name, &used, &hard,
					&more)))
			}
		}
	}
	return errs
}
