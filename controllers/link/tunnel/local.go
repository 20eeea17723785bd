// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/gateway"
)

// Local is the local cluster with its gateway. The controllers of a process share one.
type Local struct {
	// Client reads the cache of the manager.
	Client client.Client
	Clock  clock.PassiveClock
	// ClusterID is the ID of the local cluster, Namespace its installation namespace.
	ClusterID, Namespace string
	Settings             Settings
	// Finder finds the endpoints of the gateway; nil where no Service leads to it. It is not
	// used where Settings name them.
	Finder *gateway.Finder

	// installation reads the installation namespace.
	installation client.Reader
	announced    announcement
}

func (l *Local) setUp(installation client.Reader) {
	l.installation = installation
	if len(l.Settings.Endpoints) > 0 {
		l.Finder = nil
	}
}

// facts are what peers need of the local cluster, as one pass reads it.
type facts struct {
	// ranges are those of the local cluster.
	ranges netmap.Ranges
	// newKey is the public key in the Secret, and usedKey the one that the gateway uses, which is
	// what peers need.
	newKey, usedKey string
	// mtu is the largest packet inside of a tunnel, in bytes, by the settings and the gateway; 0
	// if neither names it.
	mtu int32
	// endpoints are those of the gateway. Where they are those of a Service, service is that, and
	// unreachable is why there are none.
	endpoints   []string
	service     *corev1.Service
	unreachable string
	// external are the external CIDRs.
	external []string
}

// readKeys reads the public key of the gateway. It creates the pair once; the private key is
// then read by the gateway alone. A new key is announced when the gateway uses it: until then
// the older one reaches it. tunnel may be nil.
func (l *Local) readKeys(ctx context.Context, f *facts, tunnel *v1alpha1.TunnelEndpoint) (*state, error) {
	var err error
	if f.ranges, err = clusterinfo.Ranges(ctx, l.Client); err != nil {
		return nil, err
	}
	if len(f.ranges.Pods) == 0 {
		return failing(ReasonNotConfigured, "The ranges of this cluster's pods are not known, as ClusterInfo %s states: "+
			"name them in network.podCIDRs in the values of the chart.", v1alpha1.ClusterInfoName), nil
	}
	secret := &corev1.Secret{}
	err = l.installation.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: v1alpha1.WireGuardSecret}, secret)
	if apierrors.IsNotFound(err) {
		if secret, err = newKeys(l.Namespace); err != nil {
			return nil, fmt.Errorf("generating the keys of the gateway: %w", err)
		}
		if err = l.Client.Create(ctx, secret); err != nil {
			// The error of the API server does not repeat the body of the request.
			return nil, fmt.Errorf("creating Secret %s/%s: %w", l.Namespace, v1alpha1.WireGuardSecret, err)
		}
	}
	if err != nil {
		return nil, err
	}
	f.newKey = string(secret.Data[v1alpha1.WireGuardPublicKey])
	described := l.Settings.config(l.ClusterID, f.newKey, []string{examplePods})
	if errs := validation.ValidateNetworkConfigSpec(described); len(errs) > 0 {
		return failing(ReasonKeyInvalid, "Secret %s/%s holds no public key of WireGuard under %s: correct it, "+
			"or delete it to have another pair created.",
			l.Namespace, v1alpha1.WireGuardSecret, v1alpha1.WireGuardPublicKey), nil
	}
	if f.usedKey = f.newKey; tunnel != nil && tunnel.Status.PublicKey != "" {
		f.usedKey = tunnel.Status.PublicKey
	}
	return nil, nil
}

// newKeys generates a pair of keys as wg genkey and wg pubkey do.
func newKeys(namespace string) (*corev1.Secret, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	// Curve25519 ignores these bits, and wg genkey writes them so.
	private := key.Bytes()
	private[0] &= 248
	private[31] = private[31]&127 | 64
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.WireGuardSecret,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Type: v1alpha1.SecretTypeWireGuard,
		Data: map[string][]byte{
			v1alpha1.WireGuardPrivateKey: encode(private),
			v1alpha1.WireGuardPublicKey:  encode(key.PublicKey().Bytes()),
		},
	}, nil
}

func encode(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key)) }

// findEndpoints reads the endpoints of the gateway.
func (l *Local) findEndpoints(ctx context.Context, f *facts) error {
	f.endpoints = l.Settings.Endpoints
	if l.Finder == nil {
		return nil
	}
	var err error
	f.endpoints, f.service, err = l.Finder.Find(ctx)
	if f.service != nil && len(f.endpoints) == 0 {
		f.unreachable = gateway.Unreachable(f.service)
	}
	return err
}

// gateway returns what a peer needs of the gateway: nil until there is a key. previous is what
// was announced before. Endpoints change no sooner than in a NetworkConfig; after is when they
// are to be read again, if that is not zero.
func (l *Local) gateway(
	ctx context.Context, f *facts, tunnel *v1alpha1.TunnelEndpoint, previous *v1alpha1.PeeringGateway,
) (current *v1alpha1.PeeringGateway, after time.Duration, err error) {
	if failed, err := l.readKeys(ctx, f, tunnel); failed != nil || err != nil {
		return nil, 0, err
	}
	if err := l.findEndpoints(ctx, f); err != nil {
		return nil, 0, err
	}
	current = &v1alpha1.PeeringGateway{PublicKey: f.usedKey, Endpoints: f.endpoints}
	if previous != nil {
		current.Endpoints, after = l.settled(f, previous.Endpoints)
	}
	return current, after, nil
}

// announcement is when the endpoints of the gateway changed.
type announcement struct {
	mu        sync.Mutex
	endpoints []string
	since     time.Time
}

// settled returns the endpoints to announce to a peer that previous ones were announced to.
// Pods of a gateway are replaced when they restart, so that other nodes are announced only
// after the time settleTime, of which left is the rest.
func (l *Local) settled(f *facts, previous []string) (endpoints []string, left time.Duration) {
	if l.Finder == nil {
		return f.endpoints, 0
	}
	a, now := &l.announced, l.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() || !slices.Equal(a.endpoints, f.endpoints) {
		a.endpoints, a.since = f.endpoints, now
	}
	if len(previous) == 0 || slices.Equal(previous, f.endpoints) ||
		f.service == nil || f.service.Spec.Type != corev1.ServiceTypeNodePort {
		return f.endpoints, 0
	}
	if left = a.since.Add(settleTime).Sub(now); left > 0 {
		return previous, left
	}
	return f.endpoints, 0
}
