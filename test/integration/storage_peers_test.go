// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// TestPeerReachesNoStorageThatIsNotItsOwn requests claims of another consumer and of the provider,
// including a claim of the provider in the consumer's remote namespace.
func TestPeerReachesNoStorageThatIsNotItsOwn(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	pavia, lodi := makeTenancy(t, env, "pavia"), makeTenancy(t, env, "lodi")
	admin := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1()
	must(t)(admin.ResourceOffers(pavia.tenant).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "storage"},
		Spec: v1alpha1.ResourceOfferSpec{
			ClusterID: thisID, Resources: amounts("cpu", "1"), Storage: amounts("requests.storage", "10Gi"),
			StorageClasses: []string{"fast"},
		},
	}, metav1.CreateOptions{}))
	accept(t, versioned.NewForConfigOrDie(env.Admin), pavia.tenant, "storage")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	must(t)(env.Kube.CoreV1().PersistentVolumeClaims(pavia.remote).Create(t.Context(), claim, metav1.CreateOptions{}))
	config := env.User(t, pavia.user, v1alpha1.PeerGroup)
	peer, kube := versioned.NewForConfigOrDie(config).FederationV1alpha1(), kubeOf(t, config)
	// The consumer's own permissions take effect with a delay. Until then every request would be
	// refused.
	retry(t, func() (any, error) {
		return peer.ShadowVolumeClaims(pavia.remote).List(t.Context(), metav1.ListOptions{})
	})
	_, err := peer.ShadowVolumeClaims(pavia.remote).Create(t.Context(), newShadowVolumeClaim("own", "fast", "1Gi"),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	for _, attempt := range []struct {
		name    string
		refused func(error) bool
		request func(context.Context) error
	}{
		{"reads a claim of another consumer", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(lodi.remote).Get(ctx, "data", metav1.GetOptions{})
			return err
		}},
		{"lists the claims of all consumers", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			return err
		}},
		{"creates a claim of another consumer", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(lodi.remote).Create(ctx, newShadowVolumeClaim("data", "fast", "1Gi"),
				metav1.CreateOptions{})
			return err
		}},
		{"expands a claim of another consumer", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(lodi.remote).Patch(ctx, "data", types.MergePatchType,
				[]byte(`{"spec":{"storage":"2Gi"}}`), metav1.PatchOptions{})
			return err
		}},
		{"deletes a claim of another consumer", apierrors.IsForbidden, func(ctx context.Context) error {
			return peer.ShadowVolumeClaims(lodi.remote).Delete(ctx, "data", metav1.DeleteOptions{})
		}},
		{"uses a class that is not offered", apierrors.IsInvalid, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(pavia.remote).Create(ctx, newShadowVolumeClaim("other", "slow", "1Gi"),
				metav1.CreateOptions{})
			return err
		}},
		{"sets another class", apierrors.IsInvalid, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(pavia.remote).Patch(ctx, "own", types.MergePatchType,
				[]byte(`{"spec":{"storageClassName":"slow"}}`), metav1.PatchOptions{})
			return err
		}},
		{"reports that its claim has another volume", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := peer.ShadowVolumeClaims(pavia.remote).Patch(ctx, "own", types.MergePatchType,
				[]byte(`{"status":{"volumeName":"other"}}`), metav1.PatchOptions{}, "status")
			return err
		}},
		{"reads a claim of the provider in its remote namespace", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.CoreV1().PersistentVolumeClaims(pavia.remote).Get(ctx, claim.Name, metav1.GetOptions{})
			return err
		}},
		{"creates a claim of the provider", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.CoreV1().PersistentVolumeClaims(pavia.remote).Create(ctx, claim, metav1.CreateOptions{})
			return err
		}},
		{"changes a claim of the provider", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.CoreV1().PersistentVolumeClaims(pavia.remote).Patch(ctx, claim.Name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			return err
		}},
		{"deletes a claim of the provider", apierrors.IsForbidden, func(ctx context.Context) error {
			return kube.CoreV1().PersistentVolumeClaims(pavia.remote).Delete(ctx, claim.Name, metav1.DeleteOptions{})
		}},
		{"lists volumes", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			return err
		}},
		{"changes a volume", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.CoreV1().PersistentVolumes().Patch(ctx, "data", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}},
		{"lists classes", apierrors.IsForbidden, func(ctx context.Context) error {
			_, err := kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
			return err
		}},
		{"mounts a claim of another consumer", apierrors.IsInvalid, mounts(peer.ShadowPods(pavia.remote), "../"+lodi.remote+"/data")},
		{"runs a pod in the namespace of another consumer's claims", apierrors.IsForbidden, mounts(peer.ShadowPods(lodi.remote), "data")},
	} {
		if err := attempt.request(t.Context()); !attempt.refused(err) {
			t.Errorf("a peer %s: %v", attempt.name, err)
		}
	}
}

// mounts returns a function that creates a ShadowPod which mounts a claim.
func mounts(pods interface {
	Create(context.Context, *v1alpha1.ShadowPod, metav1.CreateOptions) (*v1alpha1.ShadowPod, error)
}, claim string) func(context.Context) error {
	pod := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1alpha1.ShadowPodSpec{Pod: shadowPodSpec()}}
	pod.Spec.Pod.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return func(ctx context.Context) error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}
