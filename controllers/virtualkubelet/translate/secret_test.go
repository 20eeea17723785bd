// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func secret(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key", UID: "1", ResourceVersion: "7"},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"a": {0, 1}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestSecretsAreReflectedUnlessTheyAreLocal(t *testing.T) {
	for kind, leaves := range map[corev1.SecretType]bool{
		corev1.SecretTypeOpaque:              true,
		corev1.SecretTypeTLS:                 true,
		corev1.SecretTypeDockerConfigJson:    true,
		corev1.SecretTypeBasicAuth:           true,
		corev1.SecretTypeSSHAuth:             true,
		"example.com/anything":               true,
		corev1.SecretTypeServiceAccountToken: false,
		corev1.SecretTypeBootstrapToken:      false,
		"helm.sh/release.v1":                 false,
		"federation.liqo.io/identity":        false,
		"federation.liqo.io/invitation":      false,
	} {
		t.Run(string(kind), func(t *testing.T) {
			local := secret(func(s *corev1.Secret) { s.Type, s.Immutable = kind, ptr.To(true) })
			var want *corev1.Secret
			if leaves {
				want = &corev1.Secret{
					ObjectMeta: copied("key", nil),
					Type:       kind,
					Immutable:  ptr.To(true),
					Data:       map[string][]byte{"a": {0, 1}},
				}
			}
			if diff := cmp.Diff(want, Secret(local, "shop-rome", destination)); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
		})
	}
	skipped := secret(func(s *corev1.Secret) { s.Annotations = map[string]string{"liqo.io/skip-reflection": "yes"} })
	if got := Secret(skipped, "shop-rome", destination); got != nil {
		t.Errorf("an excluded object is reflected: %v", got)
	}
	const want = "type!=kubernetes.io/service-account-token,type!=bootstrap.kubernetes.io/token," +
		"type!=helm.sh/release.v1," +
		"type!=federation.liqo.io/invitation,type!=federation.liqo.io/identity,type!=federation.liqo.io/tokens"
	if got := ReflectableSecrets().String(); got != want {
		t.Errorf("the Secrets that are read are %s", got)
	}
}

func TestUpdateSecretChangesWhatDiffers(t *testing.T) {
	immutable := func(s *corev1.Secret) { s.Immutable = ptr.To(true) }
	for _, test := range []struct {
		name          string
		before, after func(*corev1.Secret)
		want          Change
	}{
		{name: "nothing"},
		{name: "data", after: func(s *corev1.Secret) { s.Data["a"] = []byte("2") }, want: Update},
		{name: "a label", after: func(s *corev1.Secret) { s.Labels = map[string]string{"app": "web"} }, want: Update},
		{name: "immutable", after: immutable, want: Update},
		{name: "changed type", after: func(s *corev1.Secret) { s.Type = "example.com/other" }, want: Replace},
		{
			name: "the data of an immutable object", before: immutable,
			after: func(s *corev1.Secret) { immutable(s); s.Data = nil }, want: Replace,
		},
		{name: "no longer immutable", before: immutable, want: Replace},
		{name: "unchanged immutable object", before: immutable, after: immutable},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing, desired := Secret(
				secret(test.before),
				"shop-rome",
				destination,
			), Secret(
				secret(test.after),
				"shop-rome",
				destination,
			)
			if got := UpdateSecret(existing, desired); got != test.want {
				t.Fatalf("change %d, want %d", got, test.want)
			}
			if test.want == Replace {
				return
			}
			if diff := cmp.Diff(desired, existing); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
		})
	}
}
