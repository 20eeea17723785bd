// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const vaultVolume = "vault"

func TestVirtualKubeletDeliversTokens(t *testing.T) {
	o := newOffload(t)
	o.options.ConsumerAPIServer = "https://192.0.2.7:6443"
	o.ServiceAccount(t, o.local, "robot")
	o.start(t)
	t.Run("a pod gets its tokens only", o.testTokens)
	t.Run("a pod that mounts none gets none", o.testNoTokens)
	t.Run("tokens are invalid after their pod", o.testTokensEnd)
	t.Run("a restart renews those that are due, and only these", o.testTokenRestart)
	t.Run("a node with tokens disabled delivers none", o.testTokensDisabled)
}

// client creates a local pod that mounts two tokens: one for its API server, and one for the
// audience vault.
func (o *offload) client(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return o.bind(t, o.local, name, func(pod *corev1.Pod) {
		pod.Spec.ServiceAccountName = "robot"
		pod.Spec.Volumes = []corev1.Volume{{Name: vaultVolume,
			VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Path: "vault", Audience: "vault", ExpirationSeconds: ptr.To[int64](600),
				}}},
			}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: vaultVolume, MountPath: "/vault"}}
	})
}

// tokens waits until the Secret that a ShadowPod mounts exists. It returns the Secret, and the
// tokens in it by their paths in the volume.
func (o *offload) tokens(t *testing.T, shadow *v1alpha1.ShadowPod) (*corev1.Secret, map[string]string) {
	t.Helper()
	var secret *corev1.Secret
	until(t, "its tokens are delivered", func(ctx context.Context) (bool, error) {
		var err error
		secret, err = o.Kube.CoreV1().Secrets(o.remote).Get(ctx, shadow.Annotations[v1alpha1.AnnotationTokenSecret],
			metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	paths := map[string]string{}
	for _, volume := range shadow.Spec.Pod.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil && source.Secret.Name == secret.Name {
				for _, item := range source.Secret.Items {
					paths[item.Path] = string(secret.Data[item.Key])
				}
			}
		}
	}
	return secret, paths
}

// whoami returns the user of a token, according to a TokenReview of the consumer's API server.
func (o *offload) whoami(t *testing.T, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	config := o.Anonymous()
	config.BearerToken = token
	review, err := kubeOf(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return review.Status.UserInfo, err
}

func (o *offload) testTokens(t *testing.T) {
	local := o.client(t, "client")
	shadow := o.shadow(t, "client")
	secret, tokens := o.tokens(t, shadow)
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != shadow.UID {
		t.Errorf("the Secret belongs to %v, want the shadow pod %s", secret.OwnerReferences, shadow.UID)
	}
	user, err := o.whoami(t, tokens["token"])
	if err != nil {
		t.Fatal(err)
	}
	if user.Username != account(o.local, "robot") ||
		strings.Join(user.Extra["authentication.kubernetes.io/pod-uid"], "") != string(local.UID) {
		t.Errorf("the token belongs to %+v", user)
	}
	for audience, wanted := range map[string]bool{"vault": true, "another": false} {
		review, err := o.Kube.AuthenticationV1().TokenReviews().Create(t.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: tokens["vault"],
				Audiences: []string{audience}}}, metav1.CreateOptions{})
		if err != nil || review.Status.Authenticated != wanted {
			t.Errorf("for %s the other token is %+v, %v", audience, review.Status, err)
		}
	}
	if _, err := o.whoami(t, tokens["vault"]); !apierrors.IsUnauthorized(err) {
		t.Errorf("the consumer's API server accepts the token for the vault: %v", err)
	}

	// remote is the pod that the provider creates from the ShadowPod.
	remote := o.make(t, "client")
	if env := remote.Spec.Containers[0].Env[0]; env.Name != "KUBERNETES_SERVICE_HOST" ||
		env.Value != "kubernetes.default.svc" {
		t.Errorf("the first variable is %v", env)
	}
	if aliases := remote.Spec.HostAliases; len(aliases) != 1 || aliases[0].IP != "192.0.2.7" {
		t.Errorf("aliases %v", aliases)
	}
	mounts := map[string]string{}
	for _, mount := range remote.Spec.Containers[0].VolumeMounts {
		mounts[mount.MountPath] = mount.Name
	}
	if len(mounts) != 2 || mounts["/vault"] != vaultVolume ||
		mounts["/var/run/secrets/kubernetes.io/serviceaccount"] == "" {
		t.Errorf("mounts %v", mounts)
	}
}

func (o *offload) testNoTokens(t *testing.T) {
	before, err := o.Kube.CoreV1().Secrets(o.remote).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.bind(t, o.local, "alone", func(pod *corev1.Pod) { pod.Spec.AutomountServiceAccountToken = ptr.To(false) })
	shadow := o.shadow(t, "alone")
	if shadow.Annotations[v1alpha1.AnnotationTokenSecret] != "" || len(shadow.Spec.Pod.Volumes) != 0 {
		t.Errorf("it has tokens: %+v", shadow)
	}
	// When the pod is ready, the virtual kubelet has reconciled it.
	o.runs(t, o.make(t, "alone"), 0)
	o.awaitPod(t, o.local, "alone", "the pod is ready", isReady)
	after, err := o.Kube.CoreV1().Secrets(o.remote).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(after.Items) != len(before.Items) {
		t.Errorf("found %d Secrets, and %d before; %v", len(after.Items), len(before.Items), err)
	}
}

func (o *offload) testTokenRestart(t *testing.T) {
	o.client(t, "due")
	o.client(t, "young")
	due, dueTokens := o.tokens(t, o.shadow(t, "due"))
	young, _ := o.tokens(t, o.shadow(t, "young"))

	o.stop()
	secrets := o.Kube.CoreV1().Secrets(o.remote)
	if _, err := secrets.Patch(t.Context(), due.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"offloading.liqo.io/renew-after":"2026-01-01T00:00:00Z"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.start(t)
	until(t, "the tokens that are due are new", func(ctx context.Context) (bool, error) {
		now, err := secrets.Get(ctx, due.Name, metav1.GetOptions{})
		if err != nil || now.Annotations[v1alpha1.AnnotationRenewAfter] < "2026-02" {
			return false, err
		}
		for key, old := range due.Data {
			if string(now.Data[key]) == string(old) {
				t.Errorf("%s is the same token", key)
			}
		}
		return now.UID == due.UID, nil
	})
	// The old token must stay valid, because the container may still use it.
	if _, err := o.whoami(t, dueTokens["token"]); err != nil {
		t.Error(err)
	}
	now, err := secrets.Get(t.Context(), young.Name, metav1.GetOptions{})
	if err != nil || now.ResourceVersion != young.ResourceVersion {
		t.Errorf("the others were written: %v, %v", now, err)
	}
}

func (o *offload) testTokensEnd(t *testing.T) {
	o.client(t, "short")
	_, tokens := o.tokens(t, o.shadow(t, "short"))
	if _, err := o.whoami(t, tokens["token"]); err != nil {
		t.Fatal(err)
	}
	if err := o.Kube.CoreV1().Pods(o.local).Delete(t.Context(), "short", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	o.awaitLeaving(t, "short")
	until(t, "its token is invalid", func(context.Context) (bool, error) {
		_, err := o.whoami(t, tokens["token"])
		if err == nil || apierrors.IsUnauthorized(err) {
			return err != nil, nil
		}
		return false, err
	})
	o.release(t, "short")
}

func (o *offload) testTokensDisabled(t *testing.T) {
	// The virtual kubelet of the previous subtest has ended with it.
	o.start(t)
	attempt := 0
	for _, stage := range []struct {
		name, patch string
		subresource []string
		without     bool
	}{
		{"the ForeignCluster gives no access", `{"status":{"apiAccess":"Disabled"}}`, []string{"status"}, true},
		{"the VirtualNode gives access", `{"spec":{"apiAccess":"Consumer"}}`, nil, false},
		{"both give access", `{"status":{"apiAccess":"Consumer"}}`, []string{"status"}, false},
		{"the VirtualNode gives no access", `{"spec":{"apiAccess":"Disabled"}}`, nil, true},
	} {
		if _, err := o.federation.FederationV1alpha1().VirtualNodes(o.peer).Patch(t.Context(), virtualNode,
			types.MergePatchType, []byte(stage.patch), metav1.PatchOptions{}, stage.subresource...); err != nil {
			t.Fatal(err)
		}
		until(t, stage.name, func(context.Context) (bool, error) {
			attempt++
			name := "kept-" + strings.Repeat("x", attempt)
			o.client(t, name)
			shadow := o.shadow(t, name)
			without := shadow.Annotations[v1alpha1.AnnotationTokenSecret] == "" && len(shadow.Spec.Pod.Volumes) == 0 &&
				len(shadow.Spec.Pod.HostAliases) == 0
			return without == stage.without, nil
		})
	}
}
