// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/integration/framework"
)

const testProvisioner = "test.example.com"

// maxTestVolume is the size up to which the provisioner can expand a volume.
var maxTestVolume = resource.MustParse("4Gi")

// provisioner does the work of an external provisioner and resizer with volumes that have no
// storage.
type provisioner struct {
	kube kubernetes.Interface
}

// runProvisioner runs a provisioner until the test ends, and returns it.
func runProvisioner(t *testing.T, env *framework.Environment) {
	t.Helper()
	p := &provisioner{kube: env.Kube}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if err := p.pass(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				t.Errorf("provisioning: %v", err)
				return true, nil
			}
			return false, nil
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (p *provisioner) pass(ctx context.Context) error {
	claims, err := p.kube.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		switch {
		case claim.Annotations[volume.AnnotationStorageProvisioner] != testProvisioner || claim.DeletionTimestamp != nil:
		case claim.Spec.VolumeName == "":
			err = p.provision(ctx, claim)
		case claim.Status.Phase == corev1.ClaimBound:
			err = p.expand(ctx, claim)
		}
		if err != nil {
			return err
		}
	}
	volumes, err := p.kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if pv.Annotations[volume.AnnotationProvisionedBy] != testProvisioner || pv.Status.Phase != corev1.VolumeReleased ||
			pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.DeletionTimestamp != nil {
			continue
		}
		if err := p.kube.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volume.VolumeName(claim.UID), Annotations: map[string]string{volume.AnnotationProvisionedBy: testProvisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: *claim.Spec.StorageClassName, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: testProvisioner, VolumeHandle: string(claim.UID),
			}},
		},
	}
	_, err := p.kube.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *provisioner) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := claim.Status.Capacity[corev1.ResourceStorage]
	status := corev1.PersistentVolumeClaimControllerResizeInfeasible
	switch {
	case size.Cmp(wanted) >= 0 && len(claim.Status.AllocatedResources) == 0:
		return nil
	case size.Cmp(wanted) >= 0:
		claim.Status.AllocatedResources, claim.Status.AllocatedResourceStatuses = nil, nil
	case wanted.Cmp(maxTestVolume) <= 0:
		pv, err := p.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pv.Spec.Capacity = claim.Spec.Resources.Requests
		if _, err := p.kube.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
			return err
		}
		claim.Status.Capacity = claim.Spec.Resources.Requests
		claim.Status.AllocatedResources, claim.Status.AllocatedResourceStatuses = nil, nil
	case claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == status:
		return nil
	default:
		claim.Status.AllocatedResources = claim.Spec.Resources.Requests
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: status}
	}
	_, err := p.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// makeClass creates a StorageClass of the provisioner until the test ends.
func makeClass(t *testing.T, env *framework.Environment, name string, mode storagev1.VolumeBindingMode) {
	t.Helper()
	must(t)(env.Kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: testProvisioner, VolumeBindingMode: &mode,
		AllowVolumeExpansion: ptr.To(true),
	}, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return env.Kube.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{})
	})
}
