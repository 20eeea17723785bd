// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

const (
	// noProvisioner is the provisioner of StorageClasses whose volumes administrators create.
	noProvisioner = "kubernetes.io/no-provisioner"
	// defaultClass is the annotation of a default StorageClass, with value "true".
	defaultClass = "storageclass.kubernetes.io/is-default-class"
	// ofClaim is the prefix of variables in parameters of a StorageClass that stand for properties of a
	// claim. Only the external provisioner can replace them.
	ofClaim = "${pvc."
)

// target returns the requested target of the move, with defaults for the StorageClass and the nodes. It
// returns errors if a requested object does not exist or cannot be used.
func (r Request) target(source end) (end, field.ErrorList) {
	requested := r.Spec.Target
	switch {
	case requested.Local:
		return r.localTarget()
	case requested.ClusterName != "":
		for i := range r.Providers {
			if r.Providers[i].Cluster.Name == requested.ClusterName {
				return r.remoteTarget(&r.Providers[i])
			}
		}
		return end{}, field.ErrorList{invalid(r.targetPath(), requested.ClusterName,
			"no ForeignCluster has this name; kubectl get foreignclusters lists them, and "+
				"target.local: true selects the local cluster")}
	case source.provider != nil:
		return r.remoteTarget(source.provider)
	}
	return r.localTarget()
}

func (r Request) localTarget() (end, field.ErrorList) {
	target, errs := end{}, field.ErrorList(nil)
	for _, node := range r.Nodes {
		if node.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode {
			target.nodes = append(target.nodes, node)
		}
	}
	if name := r.Spec.Target.NodeName; name != "" {
		target.nodes = named(target.nodes, name)
		if len(target.nodes) == 0 {
			errs = append(errs, invalid(targetPath.Child("nodeName"), name,
				"must be a node of this cluster; set clusterName for virtual nodes"))
		}
	}
	class, path := r.localClass(), targetPath.Child("storageClassName")
	switch {
	case class == nil && r.Spec.Target.StorageClassName != "":
		return target, append(errs, invalid(path, r.Spec.Target.StorageClassName,
			"no StorageClass has this name; kubectl get storageclasses lists them"))
	case class == nil:
		return target, append(errs, field.Required(path, "localStorageClassName of the claim's StorageClass "+
			"names none that exists, or it is empty and this cluster has no default StorageClass; name one"))
	}
	target.class = class.Name
	const other = "; name another StorageClass"
	switch {
	case class.Provisioner == v1alpha1.StorageProvisioner:
		errs = append(errs, invalid(path, class.Name, "must not be a virtual class%s", other))
	case class.Provisioner == noProvisioner:
		errs = append(errs, invalid(path, class.Name, "provisioner %s creates no volumes%s", noProvisioner, other))
	}
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		if strings.Contains(class.Parameters[key], ofClaim) {
			errs = append(errs, invalid(path, class.Name, "its parameter %s depends on the claim%s", key, other))
		}
	}
	return target, errs
}

// localClass returns the StorageClass for a target in the local cluster: the requested StorageClass,
// otherwise the StorageClass in the parameter localStorageClassName of the virtual StorageClass,
// otherwise the newest default StorageClass that is not virtual. It returns nil if this StorageClass does not exist.
func (r Request) localClass() *storagev1.StorageClass {
	if name := r.Spec.Target.StorageClassName; name != "" {
		return r.findClass(name)
	}
	if name := r.localStorageClassName(); name != "" {
		return r.findClass(name)
	}
	var found *storagev1.StorageClass
	for _, class := range r.Classes {
		if class.Annotations[defaultClass] != "true" || class.Provisioner == v1alpha1.StorageProvisioner {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&class.CreationTimestamp) {
			found = class
		}
	}
	return found
}

// localStorageClassName returns this parameter of the virtual StorageClass of the claim, empty if it is not set.
func (r Request) localStorageClassName() string {
	virtual := r.findClass(ptr.Deref(r.Claim.Spec.StorageClassName, ""))
	if virtual == nil {
		return ""
	}
	return virtual.Parameters[v1alpha1.ParameterLocalStorageClass]
}

func (r Request) remoteTarget(provider *placement.Provider) (end, field.ErrorList) {
	target, name := end{provider: provider}, provider.Cluster.Name
	if refusal := provider.Refuses(); refusal != "" {
		return target, field.ErrorList{invalid(r.targetPath(), name, "%s", refusal)}
	}
	var offered []string
	for _, virtualNode := range r.usable(provider) {
		target.nodes = append(target.nodes, r.nodeOf(virtualNode))
		for _, class := range virtualNode.Status.StorageClasses {
			if !slices.Contains(offered, class) {
				offered = append(offered, class)
			}
		}
	}
	if node := r.Spec.Target.NodeName; len(target.nodes) == 0 {
		return target, field.ErrorList{invalid(targetPath.Child("nodeName"), node,
			"must be a virtual node of cluster %s; kubectl get virtualnodes -A lists them", name)}
	}
	if len(offered) == 0 {
		return target, field.ErrorList{invalid(r.targetPath(), name,
			"the cluster offers no storage class; have its administrator offer one")}
	}
	claim := &corev1.PersistentVolumeClaim{}
	if class := r.Spec.Target.StorageClassName; class != "" {
		if !slices.Contains(offered, class) {
			return target, field.ErrorList{field.NotSupported(targetPath.Child("storageClassName"), class, offered)}
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1alpha1.AnnotationRemoteStorageClass, class)
	}
	class, err := volume.RemoteClass(claim, r.localStorageClassName(), offered)
	if err != nil {
		return target, field.ErrorList{invalid(r.targetPath(), name, "%v", err)}
	}
	target.class = class
	return target, nil
}

// usable returns the virtual nodes of a provider on which the volume may be used: the requested virtual
// node, or all if none is requested.
func (r Request) usable(provider *placement.Provider) []*v1alpha1.VirtualNode {
	return slices.DeleteFunc(slices.Clone(provider.VirtualNodes), func(virtualNode *v1alpha1.VirtualNode) bool {
		requested := r.Spec.Target.NodeName
		return virtualNode.DeletionTimestamp != nil || requested != "" && virtualNode.Spec.NodeName != requested
	})
}

// nodeOf returns the Node of a virtual node. If the Node does not exist yet, nodeOf returns one with the labels that
// the virtual kubelet will set.
func (r Request) nodeOf(virtualNode *v1alpha1.VirtualNode) *corev1.Node {
	if found := named(r.Nodes, virtualNode.Spec.NodeName); len(found) > 0 {
		return found[0]
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: virtualNode.Spec.NodeName, Labels: placement.VirtualNodeLabels(virtualNode),
	}}
}

func named(nodes []*corev1.Node, name string) []*corev1.Node {
	i := slices.IndexFunc(nodes, func(node *corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return nodes[i : i+1]
}

// reaches reports whether the node affinity of a volume matches a node.
func reaches(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}
