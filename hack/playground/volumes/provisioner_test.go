// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// testProvisioner returns the provisioner on rome-worker-1, the first of two workers.
func testProvisioner(t *testing.T, changes ...func(worker *corev1.Node)) *provisioner {
	t.Helper()
	controlPlane := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-control-plane"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}}}
	first := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-worker-1"}}
	second := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-worker-2"}}
	for _, change := range changes {
		change(first)
	}
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range []*corev1.Node{second, controlPlane, first} {
		if err := nodes.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	directories := map[string]string{}
	for _, kind := range kinds {
		directories[kind] = filepath.Join(t.TempDir(), kind)
	}
	return &provisioner{node: "rome-worker-1", nodes: listers.NewNodeLister(nodes), directories: directories}
}

func provision(t *testing.T, p *provisioner, kind string) (*corev1.PersistentVolume, error) {
	t.Helper()
	policy := corev1.PersistentVolumeReclaimDelete
	class := &storagev1.StorageClass{ReclaimPolicy: &policy}
	if kind != "" {
		class.Parameters = map[string]string{kindParameter: kind}
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	options := controller.ProvisionOptions{StorageClass: class, PVName: "pvc-1", PVC: claim}
	volume, _, err := p.Provision(t.Context(), options)
	return volume, err
}

func TestClaimIsProvisionedOnItsNode(t *testing.T) {
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	lose := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	}
	avoid := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	for name, test := range map[string]struct {
		selected string
		change   func(*corev1.Node)
		want     bool
	}{
		"the selected node":               {selected: "rome-worker-1", want: true},
		"the selected node, cordoned":     {selected: "rome-worker-1", change: cordon, want: true},
		"another selected node":           {selected: "rome-worker-2"},
		"the first node without taints":   {want: true},
		"a node that pods should avoid":   {change: avoid, want: true},
		"a cordoned node is no default":   {change: cordon},
		"an unreachable node, no default": {change: lose},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*corev1.Node)
			if test.change != nil {
				changes = append(changes, test.change)
			}
			claim := &corev1.PersistentVolumeClaim{}
			if test.selected != "" {
				claim.Annotations = map[string]string{selectedNode: test.selected}
			}
			if got := testProvisioner(t, changes...).ShouldProvision(t.Context(), claim); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestVolumeIsDeletedWithItsContentByItsNode(t *testing.T) {
	for name, test := range map[string]struct {
		kind, want string
		affinity   bool
	}{
		"a class without a kind": {kind: "", want: kindLocal, affinity: true},
		"an ephemeral volume":    {kind: kindEphemeral, want: kindEphemeral, affinity: true},
		"a shared volume":        {kind: kindShared, want: kindShared},
	} {
		t.Run(name, func(t *testing.T) {
			p := testProvisioner(t)
			volume, err := provision(t, p, test.kind)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(p.directories[test.want], "pvc-1")
			if diff := cmp.Diff(path, pathOf(volume)); diff != "" {
				t.Error(diff)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != fs.ModeDir|0o777 {
				t.Errorf("the directory has the mode %v", info.Mode())
			}
			if got := volume.Spec.NodeAffinity != nil; got != test.affinity {
				t.Errorf("node affinity: %v", volume.Spec.NodeAffinity)
			}
			other := *p
			other.node = "rome-worker-2"
			if other.ShouldDelete(t.Context(), volume) || !p.ShouldDelete(t.Context(), volume) {
				t.Error("the volume is not deleted by its own node alone")
			}
			if err := os.WriteFile(filepath.Join(path, "data"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(t.Context(), volume); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("the directory was not deleted: %v", err)
			}
		})
	}
}

func TestUnknownKindIsRefused(t *testing.T) {
	_, err := provision(t, testProvisioner(t), "block")
	if err == nil || !strings.Contains(err.Error(), `parameter kind is "block"; use one of [local ephemeral shared]`) {
		t.Errorf("got %v", err)
	}
}

func TestDirectoryOfAnotherVolumeIsNotDeleted(t *testing.T) {
	p := testProvisioner(t)
	volume, err := provision(t, p, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", p.directories[kindLocal], filepath.Join(p.directories[kindLocal], "pvc-2"),
		p.directories[kindLocal] + "/../local/pvc-1"} {
		volume.Spec.Local.Path = path
		if p.owns(volume) || p.Delete(t.Context(), volume) == nil {
			t.Errorf("%s was deleted", path)
		}
	}
}
