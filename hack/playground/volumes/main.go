// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command volumes provisions local volumes: one directory each, on the node
// that the scheduler selected. It runs on every node and serves only its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	driver = "playground.liqo.io/local"
	// selectedNode is set by the scheduler on claims of late-binding classes.
	selectedNode = "volume.kubernetes.io/selected-node"
)

func main() {
	node := flag.String("node", "", "name of the node this runs on")
	directory := flag.String("directory", "", "directory of the volumes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *node, *directory); err != nil {
		fmt.Fprintln(os.Stderr, "local-provisioner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node, directory string) error {
	if node == "" || !filepath.IsAbs(directory) {
		return fmt.Errorf("--node and an absolute --directory are needed")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// No leader election: the provisioners share the work by node.
	controller.NewProvisionController(ctx, client, driver, &provisioner{node: node, directory: directory},
		controller.LeaderElection(false), controller.Threadiness(1)).Run(ctx)
	return nil
}

// provisioner makes and removes the directories of one node.
type provisioner struct{ node, directory string }

var (
	_ controller.Provisioner   = &provisioner{}
	_ controller.Qualifier     = &provisioner{}
	_ controller.DeletionGuard = &provisioner{}
)

// ShouldProvision accepts claims whose pod goes to this node.
func (p *provisioner) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[selectedNode] == p.node
}

// ShouldDelete accepts volumes that are on this node.
func (p *provisioner) ShouldDelete(_ context.Context, volume *corev1.PersistentVolume) bool {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return false
	}
	for _, r := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if r.Key == corev1.LabelHostname {
			return len(r.Values) == 1 && r.Values[0] == p.node
		}
	}
	return false
}

// Provision makes the directory of a volume.
func (p *provisioner) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := p.path(o.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// The claiming pod may run as any user.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    o.PVC.Spec.VolumeMode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node},
				}},
			}}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the directory of a volume with its content.
func (p *provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.Local == nil || volume.Spec.Local.Path != p.path(volume.Name) {
		return fmt.Errorf("volume %s is not in %s", volume.Name, p.directory)
	}
	return os.RemoveAll(volume.Spec.Local.Path)
}

func (p *provisioner) path(volume string) string { return filepath.Join(p.directory, volume) }
