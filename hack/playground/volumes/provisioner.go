// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// selectedNode is the annotation by which the scheduler selects the node of a claim whose StorageClass has
	// volumeBindingMode WaitForFirstConsumer.
	selectedNode = "volume.kubernetes.io/selected-node"
	// kindParameter is the parameter of a StorageClass with the kind of its volumes; kindLocal if it is not set.
	kindParameter = "kind"
	// kindLocal is a directory on one node that survives restarts of the node.
	kindLocal = "local"
	// kindEphemeral is a directory on one node that is lost when the node restarts.
	kindEphemeral = "ephemeral"
	// kindShared is a directory that all nodes of the cluster share.
	kindShared = "shared"
)

var kinds = []string{kindLocal, kindEphemeral, kindShared}

// provisioner creates and deletes the directories of volumes.
type provisioner struct {
	node string
	// nodes lists the nodes that run this program.
	nodes listers.NodeLister
	// directories has the parent directory of the volumes of each kind.
	directories map[string]string
}

var (
	_ controller.Provisioner   = &provisioner{}
	_ controller.Qualifier     = &provisioner{}
	_ controller.DeletionGuard = &provisioner{}
)

// ShouldProvision reports whether this node provisions a claim: it is the selected node of the claim, or the default
// node if the claim has no selected one. With volumeBindingMode WaitForFirstConsumer, the controller library skips a
// claim until its node is selected.
func (p *provisioner) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	if selected := claim.Annotations[selectedNode]; selected != "" {
		return selected == p.node
	}
	return p.isDefault()
}

// ShouldDelete reports whether this node deletes a volume.
func (p *provisioner) ShouldDelete(_ context.Context, volume *corev1.PersistentVolume) bool {
	return p.owns(volume)
}

// Provision creates the directory of a volume and returns the volume. It fails if the kind in the StorageClass is
// unknown.
func (p *provisioner) Provision(
	_ context.Context, o controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	kind := cmp.Or(o.StorageClass.Parameters[kindParameter], kindLocal)
	if p.directories[kind] == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("reading storage class %s: parameter %s is %q; use one of %v",
			o.StorageClass.Name, kindParameter, kind, kinds)
	}
	path := filepath.Join(p.directories[kind], o.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("creating directory of volume: %w", err)
	}
	// Pods that mount the volume may run as any user.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("making directory of volume writable for all users: %w", err)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    o.PVC.Spec.VolumeMode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
		},
	}
	if kind == kindShared {
		// A volume of type local must name its nodes, which a shared one does not have.
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
		return volume, controller.ProvisioningFinished, nil
	}
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: path}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node},
		}}}},
	}}
	return volume, controller.ProvisioningFinished, nil
}

// Delete deletes the directory of a volume with its content. It fails if the volume is not in a directory of this
// program.
func (p *provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if p.kindOf(volume) == "" {
		return fmt.Errorf("deleting volume %s: path %q is in none of %v", volume.Name, pathOf(volume), p.directories)
	}
	if err := os.RemoveAll(pathOf(volume)); err != nil {
		return fmt.Errorf("deleting directory of volume: %w", err)
	}
	return nil
}

// owns reports whether this node deletes and expands a volume. The default node is responsible for shared
// volumes.
func (p *provisioner) owns(volume *corev1.PersistentVolume) bool {
	switch p.kindOf(volume) {
	case kindLocal, kindEphemeral:
		return nodeOf(volume) == p.node
	case kindShared:
		return p.isDefault()
	}
	return false
}

// isDefault reports whether this is the default node: the first node, by name, that accepts pods without
// tolerations.
func (p *provisioner) isDefault() bool {
	// Listing a cache cannot fail.
	nodes, _ := p.nodes.List(labels.Everything())
	first := ""
	for _, n := range nodes {
		if takesPods(n) && (first == "" || n.Name < first) {
			first = n.Name
		}
	}
	return first == p.node
}

// takesPods reports whether a node accepts pods without tolerations. A node that is not ready has a taint, too.
func takesPods(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	return !node.Spec.Unschedulable
}

// kindOf returns the kind of a volume; empty if the volume does not belong to this program.
func (p *provisioner) kindOf(volume *corev1.PersistentVolume) string {
	for kind, directory := range p.directories {
		if pathOf(volume) == filepath.Join(directory, volume.Name) {
			return kind
		}
	}
	return ""
}

func pathOf(volume *corev1.PersistentVolume) string {
	switch {
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path
	}
	return ""
}

// nodeOf returns the host name of the node that a volume is on; empty if the volume is not on exactly one.
func nodeOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, r := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if r.Key == corev1.LabelHostname && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
