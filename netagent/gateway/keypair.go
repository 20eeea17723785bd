// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// keyWriteTimeout bounds one write of the Secret or the ConfigMap with a key.
const keyWriteTimeout = 5 * time.Second

// keyPair ensures that the Secret with the key pair of the gateway and the ConfigMap with the public key exist.
type keyPair struct {
	kube      kubernetes.Interface
	namespace string
	// secret returns the cached Secret; nil if it does not exist.
	secret func() *corev1.Secret
	// publicKey returns the cached ConfigMap; nil if it does not exist. known is false until that is cached.
	publicKey func() (published *corev1.ConfigMap, known bool)
	// active reports whether this gateway is the active one.
	active func() bool
	// removed reports whether the Deployment of the gateways was deleted. If so, nothing is created any more.
	removed func() bool
}

// ensure creates the Secret with a new key pair if there is none. On the active gateway, it also writes the ConfigMap
// if that does not have the public key of the private key in the Secret. It fails if a write fails, or if the Secret
// has no private key.
func (p *keyPair) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keyWriteTimeout)
	defer cancel()
	secret := p.secret()
	if secret == nil {
		return p.create(ctx)
	}
	if !p.active() {
		return nil
	}
	key, err := parseKey(secret.Data[v1alpha1.WireGuardPrivateKey])
	if err != nil {
		return err
	}
	return p.publish(ctx, key.Public().String())
}

// create creates the Secret. Another gateway may create it at the same time: then this is no error.
func (p *keyPair) create(ctx context.Context) error {
	if p.removed() {
		return nil
	}
	secret, err := newSecret()
	if err != nil {
		return fmt.Errorf("generating the keys of the gateway: %w", err)
	}
	_, err = p.kube.CoreV1().Secrets(p.namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		// The error of the API server does not contain the private key.
		return fmt.Errorf("creating Secret %s: %w", v1alpha1.WireGuardSecret, err)
	}
	if err == nil {
		klog.FromContext(ctx).Info("Created a key pair", "secret", v1alpha1.WireGuardSecret)
	}
	return nil
}

// publish writes the public key to the ConfigMap if it has another one. A conflict is no error, because the next
// version of the ConfigMap triggers another call.
func (p *keyPair) publish(ctx context.Context, key string) error {
	published, known := p.publicKey()
	data := map[string]string{v1alpha1.WireGuardPublicKey: key}
	if !known || published != nil && maps.Equal(published.Data, data) || p.removed() {
		return nil
	}
	client := p.kube.CoreV1().ConfigMaps(p.namespace)
	var err error
	if published == nil {
		_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: managed(v1alpha1.WireGuardConfigMap), Data: data},
			metav1.CreateOptions{})
	} else {
		published = published.DeepCopy()
		published.Data, published.BinaryData = data, nil
		_, err = client.Update(ctx, published, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("publishing the public key in ConfigMap %s: %w", v1alpha1.WireGuardConfigMap, err)
	}
	klog.FromContext(ctx).Info("Published the public key", "configMap", v1alpha1.WireGuardConfigMap)
	return nil
}

// newSecret returns a Secret with a new key pair, in the format of wg genkey and wg pubkey.
func newSecret() (*corev1.Secret, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	// Curve25519 ignores these bits; wg genkey sets them in the same way.
	private := key.Bytes()
	private[0] &= 248
	private[31] = private[31]&127 | 64
	encode := func(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key)) }
	return &corev1.Secret{
		ObjectMeta: managed(v1alpha1.WireGuardSecret),
		Type:       v1alpha1.SecretTypeWireGuard,
		Data: map[string][]byte{
			v1alpha1.WireGuardPrivateKey: encode(private),
			v1alpha1.WireGuardPublicKey:  encode(key.PublicKey().Bytes()),
		},
	}, nil
}

// managed returns the metadata of an object that the gateway creates.
func managed(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}
}
