// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/fakes"
)

// keyBench is a keyPair that reads caches of a fake cluster, as the gateway does.
type keyBench struct {
	*keyPair
	t       *testing.T
	kube    *kubefake.Clientset
	ring    *keyring
	events  int
	deleted bool // of the Deployment
	standby bool
}

// newKeyBench returns a keyBench for a cluster with these objects. It must run in a bubble of synctest.
func newKeyBench(t *testing.T, objects ...runtime.Object) *keyBench {
	t.Helper()
	b := &keyBench{t: t, kube: kubefake.NewClientset(objects...), ring: newKeyring()}
	sources, err := agent.NewSources(b.kube, federationfake.NewClientset(), namespace, agent.GatewayName, func() {},
		func(*coordinationv1.Lease) {}, func(secret *corev1.Secret) {
			b.events++
			if secret != nil {
				_ = b.ring.set(secret.Data[v1alpha1.WireGuardPrivateKey])
			}
		}, func() { b.events++ })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	if !sources.Start(ctx, ctx) {
		t.Fatal("the caches were not filled")
	}
	b.keyPair = &keyPair{
		kube: b.kube, namespace: namespace, secret: sources.Secret, publicKey: sources.PublicKey,
		active: func() bool { return !b.standby }, removed: func() bool { return b.deleted },
	}
	synctest.Wait()
	b.kube.ClearActions()
	return b
}

// must calls ensure until it has nothing to do, and returns the writes.
func (b *keyBench) must() (writes []string) {
	b.t.Helper()
	for range 4 {
		if err := b.ensure(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		synctest.Wait()
	}
	for _, action := range b.kube.Actions() {
		if verb := action.GetVerb(); !slices.Contains([]string{"get", "list", "watch"}, verb) {
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
	}
	b.kube.ClearActions()
	return writes
}

// expect fails the test if must makes other writes.
func (b *keyBench) expect(what string, writes ...string) {
	b.t.Helper()
	if diff := cmp.Diff(writes, b.must()); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (b *keyBench) read() (*corev1.Secret, *corev1.ConfigMap) {
	b.t.Helper()
	secret, err := b.kube.CoreV1().Secrets(namespace).Get(b.t.Context(), v1alpha1.WireGuardSecret, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	published, err := b.kube.CoreV1().ConfigMaps(namespace).Get(b.t.Context(), v1alpha1.WireGuardConfigMap,
		metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.kube.ClearActions()
	return secret, published
}

func secretWith(private, public string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.WireGuardSecret},
		Data: map[string][]byte{
			v1alpha1.WireGuardPrivateKey: []byte(private), v1alpha1.WireGuardPublicKey: []byte(public),
		},
	}
}

// The controllers of version v0.1.0 read the public key in the Secret.
func TestGatewayCreatesAndPublishesItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newKeyBench(t)
		b.expect("without a Secret", "create secrets", "create configmaps")
		secret, published := b.read()
		private, err := parseKey(secret.Data[v1alpha1.WireGuardPrivateKey])
		if err != nil {
			t.Fatal(err)
		}
		public := private.Public().String()
		if string(secret.Data[v1alpha1.WireGuardPublicKey]) != public || secret.Type != v1alpha1.SecretTypeWireGuard {
			t.Errorf("the Secret has type %s and public key %s", secret.Type, secret.Data[v1alpha1.WireGuardPublicKey])
		}
		if diff := cmp.Diff(map[string]string{v1alpha1.WireGuardPublicKey: public}, published.Data); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if b.ring.last() != private || private[0]&7 != 0 || private[31]&192 != 64 {
			t.Error("the key in use is another one, or is not in the format of wg genkey")
		}
		b.expect("with both")

		if err := b.kube.CoreV1().Secrets(namespace).Delete(t.Context(), secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.kube.ClearActions()
		b.expect("after the Secret was deleted", "create secrets", "update configmaps")
		if newer, after := b.read(); maps.Equal(after.Data, published.Data) ||
			after.Data[v1alpha1.WireGuardPublicKey] != string(newer.Data[v1alpha1.WireGuardPublicKey]) {
			t.Errorf("the public key %s is published", after.Data)
		}
	})
}

func TestGatewayPublishesTheKeyOfAnExistingSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// An administrator may change the private key only.
		b := newKeyBench(t, secretWith(key(1), "another one"))
		b.expect("with a Secret", "create configmaps")
		public := func(n byte) map[string]string {
			return map[string]string{v1alpha1.WireGuardPublicKey: model.PrivateKey{31: n}.Public().String()}
		}
		_, published := b.read()
		if diff := cmp.Diff(public(1), published.Data); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		secrets, configMaps := b.kube.CoreV1().Secrets(namespace), b.kube.CoreV1().ConfigMaps(namespace)
		for _, test := range []struct {
			what   string
			change func() error
			writes []string
			key    byte
		}{
			{"another private key", func() error {
				_, err := secrets.Update(t.Context(), secretWith(key(2), ""), metav1.UpdateOptions{})
				return err
			}, []string{"update configmaps"}, 2},
			{"a changed ConfigMap", func() error {
				changed := published.DeepCopy()
				changed.Data = map[string]string{v1alpha1.WireGuardPublicKey: "another one"}
				_, err := configMaps.Update(t.Context(), changed, metav1.UpdateOptions{})
				return err
			}, []string{"update configmaps"}, 2},
			{"a deleted ConfigMap", func() error {
				return configMaps.Delete(t.Context(), v1alpha1.WireGuardConfigMap, metav1.DeleteOptions{})
			}, []string{"create configmaps"}, 2},
		} {
			events := b.events
			if err := test.change(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if b.events == events {
				t.Errorf("%s triggers nothing", test.what)
			}
			b.kube.ClearActions()
			b.expect(test.what, test.writes...)
			if _, published := b.read(); !maps.Equal(published.Data, public(test.key)) {
				t.Errorf("after %s, the public key %v is published", test.what, published.Data)
			}
		}
	})
}

func TestOnlyTheActiveGatewayPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newKeyBench(t)
		b.standby = true
		b.expect("before a gateway is active", "create secrets")
		b.standby = false
		b.expect("active", "create configmaps")
	})
}

// Without the Deployment, nothing deletes the keys again.
func TestGatewayWithoutADeploymentCreatesNoKeys(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"no Secret": nil, "no ConfigMap": {secretWith(key(1), "")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newKeyBench(t, objects...)
				b.deleted = true
				b.expect("removed")
			})
		})
	}
}

func TestInvalidPrivateKeyIsNeitherReplacedNorPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newKeyBench(t, secretWith("c2VjcmV0", ""))
		if err := b.ensure(t.Context()); err == nil || strings.Contains(err.Error(), "c2VjcmV0") ||
			!strings.Contains(err.Error(), "correct the Secret, or delete it") {
			t.Errorf("it returns %v", err)
		}
		if actions := b.kube.Actions(); len(actions) > 0 {
			t.Errorf("it sends %v", actions)
		}
	})
}

// Gateways may create the Secret at the same time, and a role may not permit the writes.
func TestRefusedWritesOfKeys(t *testing.T) {
	resource := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		err   error
		fails bool
	}{
		"created meanwhile": {apierrors.NewAlreadyExists(resource, v1alpha1.WireGuardSecret), false},
		"forbidden":         {apierrors.NewForbidden(resource, v1alpha1.WireGuardSecret, errors.New("no")), true},
	} {
		for _, kind := range []string{"secrets", "configmaps"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var objects []runtime.Object
					if kind == "configmaps" {
						objects = append(objects, secretWith(key(1), ""))
					}
					b := newKeyBench(t, objects...)
					fakes.React(b.kube, "create", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, test.err
					})
					if err := b.ensure(t.Context()); (err != nil) != test.fails {
						t.Errorf("it returns %v", err)
					}
				})
			})
		}
	}
}

// A role of an earlier version does not permit watching the ConfigMap.
func TestNothingIsPublishedBeforeTheConfigMapIsCached(t *testing.T) {
	b := &keyPair{
		secret:    func() *corev1.Secret { return secretWith(key(1), "") },
		publicKey: func() (*corev1.ConfigMap, bool) { return nil, false },
		active:    func() bool { return true }, removed: func() bool { return false },
	}
	if err := b.ensure(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKeysOfTwoGatewaysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		secret, err := newSecret()
		if err != nil {
			t.Fatal(err)
		}
		private := string(secret.Data[v1alpha1.WireGuardPrivateKey])
		if raw, err := base64.StdEncoding.DecodeString(private); err != nil || len(raw) != 32 || seen[private] {
			t.Errorf("the key is repeated or invalid: %d bytes, %v", len(raw), err)
		}
		seen[private] = true
	}
}
