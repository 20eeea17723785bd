// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	netutils "k8s.io/utils/net"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/commit"
)

var (
	everything    = labels.Everything()
	createOptions = metav1.CreateOptions{}
)

// ExternalAddressPool is the AddressPool of addresses that stand for what is no
// pod of this cluster, in the external CIDRs.
const ExternalAddressPool = v1alpha1.ExternalAddressPool

// keys learns the public key of our gateway. The pair is made once; afterwards
// nobody but the gateway sees the private one. A new one is told when the gateway
// uses it: before that, the older one is what leads to it.
func (r *reconciler) keys(ctx context.Context, p *pass) (*verdict, error) {
	if p.ranges = ownRanges(r.infos); len(p.ranges.Pods) == 0 {
		return failing(ReasonNotConfigured, "The ranges of this cluster's pods are not known, as ClusterInfo %s states: name them in network.podCIDRs in the values of the chart.",
			v1alpha1.ClusterInfoName), nil
	}
	secret, err := r.secrets.Get(v1alpha1.WireGuardSecret)
	if apierrors.IsNotFound(err) {
		if secret, err = newKeys(r.Namespace); err != nil {
			return nil, fmt.Errorf("make the keys of the gateway: %w", err)
		}
		if _, err = r.Kube.CoreV1().Secrets(r.Namespace).Create(ctx, secret, createOptions); err != nil {
			// Whatever happened, the bodies of requests are nobody's to read.
			return nil, fmt.Errorf("keep the keys of the gateway in Secret %s/%s: %w", r.Namespace, v1alpha1.WireGuardSecret, err)
		}
	}
	if err != nil {
		return nil, err
	}
	p.publicKey = string(secret.Data[v1alpha1.WireGuardPublicKey])
	if errs := validation.ValidateNetworkConfigSpec(r.Settings.config(r.ClusterID, p.publicKey, []string{somePods})); len(errs) > 0 {
		return failing(ReasonKeyInvalid, "Secret %s/%s holds no public key of WireGuard under %s: mend it, or delete it to have another pair made.",
			r.Namespace, v1alpha1.WireGuardSecret, v1alpha1.WireGuardPublicKey), nil
	}
	if p.told = p.publicKey; p.endpoint != nil && p.endpoint.Status.PublicKey != "" {
		p.told = p.endpoint.Status.PublicKey
	}
	return nil, nil
}

// ownMTU learns how large packets in the tunnel may be. The gateway is one for all
// tunnels: as long as it has not said so of this one, what it says of others holds.
func (r *reconciler) ownMTU(_ context.Context, p *pass) (*verdict, error) {
	var measured int32
	if p.endpoint != nil {
		measured = p.endpoint.Status.MTU
	}
	if measured == 0 {
		others, err := r.endpoints.List(everything)
		if err != nil {
			return nil, err
		}
		for _, other := range others {
			measured = lower(measured, other.Status.MTU)
		}
	}
	p.mtu = lower(r.Settings.MTU, measured)
	return nil, nil
}

// newKeys makes a pair of keys as wg genkey and wg pubkey do.
func newKeys(namespace string) (*corev1.Secret, error) {
	made, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	// Curve25519 ignores these bits, and wg genkey writes them so.
	private := made.Bytes()
	private[0] &= 248
	private[31] = private[31]&127 | 64
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.WireGuardSecret, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Type: v1alpha1.SecretTypeWireGuard,
		Data: map[string][]byte{
			v1alpha1.WireGuardPrivateKey: encode(private),
			v1alpha1.WireGuardPublicKey:  encode(made.PublicKey().Bytes()),
		},
	}, nil
}

func encode(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key)) }

// addressPools makes the pools that this cluster's settings say, with what it has
// by itself. One that an administrator made, without our label, is left alone.
func (r *reconciler) addressPools(ctx context.Context, p *pass) (*verdict, error) {
	// Of two that take an external range at once, one would be in vain.
	r.pooling.Lock()
	defer r.pooling.Unlock()
	external, missing, err := r.ownExternal(ctx, p.ranges.Pods)
	if err != nil {
		return nil, err
	}
	if err := r.defaultPool(ctx, p.ranges, external); err != nil {
		return nil, err
	}
	if p.external, err = r.takeExternal(ctx, p.ranges, external, missing); err != nil || len(p.external) == 0 {
		return nil, err
	}
	return nil, r.pool(ctx, ExternalAddressPool, v1alpha1.AddressPoolSpec{CIDRs: p.external}, 0)
}

// defaultPool makes the pool that ranges of other clusters are mapped to. What it
// reserves is this cluster's, external CIDRs among it.
func (r *reconciler) defaultPool(ctx context.Context, own netmap.Ranges, external []string) error {
	reserved, left := reserved(own, external)
	return r.pool(ctx, v1alpha1.DefaultAddressPool, v1alpha1.AddressPoolSpec{CIDRs: r.Settings.PoolCIDRs, Reserved: reserved}, left)
}

// pool makes one of the pools; left is how many ranges it has no room for.
func (r *reconciler) pool(ctx context.Context, name string, spec v1alpha1.AddressPoolSpec, left int) error {
	client := r.Federation.FederationV1alpha1().AddressPools()
	found, err := r.pools.Get(name)
	if apierrors.IsNotFound(err) {
		pool := &v1alpha1.AddressPool{Spec: spec}
		pool.Name, pool.Labels = name, map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		if _, err = client.Create(ctx, pool, createOptions); err == nil {
			r.tellOfRanges(pool, left)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make AddressPool %s: %w", name, err)
		}
		// It was made a moment ago, perhaps of another spec.
		found, err = client.Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return fmt.Errorf("look for AddressPool %s: %w", name, err)
	case isOurs(found) && !equality.Semantic.DeepEqual(found.Spec, spec):
		changed := found.DeepCopy()
		changed.Spec = spec
		if _, err := commit.Commit(ctx, client, found, changed); err != nil {
			return err
		}
		r.tellOfRanges(found, left)
	}
	return nil
}

// tellOfRanges tells of ranges that a pool has no room to reserve.
func (r *reconciler) tellOfRanges(pool *v1alpha1.AddressPool, left int) {
	if left > 0 && pool.Name == v1alpha1.DefaultAddressPool {
		r.Events.Eventf(pool, corev1.EventTypeWarning, ReasonTooManyRanges,
			"%d more ranges and addresses of this cluster's nodes are not reserved, and may be given to other clusters: set network.nodeCIDRs and network.podCIDRs to what they are in.", left)
	}
}

// ownEndpoints learns where our gateway is called, if no administrator says so.
func (r *reconciler) ownEndpoints(_ context.Context, p *pass) (*verdict, error) {
	p.calledAt = r.Settings.Endpoints
	if r.gateways == nil {
		return nil, nil
	}
	var err error
	p.calledAt, p.service, err = r.gateways.endpoints()
	if p.service != nil && len(p.calledAt) == 0 {
		p.nowhere = unreachable(p.service)
	}
	return nil, err
}

// ownConfigs tells the other cluster of our network, once for each direction.
func (r *reconciler) ownConfigs(ctx context.Context, p *pass) (*verdict, error) {
	spec := v1alpha1.NetworkConfigSpec{
		ClusterID: r.ClusterID, PodCIDRs: texts(p.ranges.Pods), ExternalCIDRs: p.external, PublicKey: p.told, Endpoints: p.calledAt, MTU: p.mtu, Backend: v1alpha1.BackendWireGuard,
	}
	for _, d := range p.directions {
		client := r.Federation.FederationV1alpha1().NetworkConfigs(d.namespace)
		found, err := r.configs.NetworkConfigs(d.namespace).Get(d.own)
		if err == nil && r.gateways != nil {
			var left time.Duration
			spec.Endpoints, left = r.gateways.settled(found.Spec.Endpoints, p.calledAt, p.service, r.Clock.Now())
			p.after = sooner(p.after, left)
		}
		switch {
		case apierrors.IsNotFound(err):
			found, err = client.Create(ctx, &v1alpha1.NetworkConfig{ObjectMeta: managed(p.fc, d.namespace, d.own), Spec: spec}, createOptions)
			if err != nil {
				return nil, fmt.Errorf("tell of our network in namespace %s: %w", d.namespace, err)
			}
		case err != nil:
			return nil, err
		case found.Spec.ClusterID != r.ClusterID:
			// Somebody else made it, and that cannot be mended.
			if err := client.Delete(ctx, d.own, exactly(found)); err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("remove NetworkConfig %s/%s of another cluster: %w", d.namespace, d.own, err)
			}
			return pending(ReasonAwaitingAnswer, "NetworkConfig %s/%s was another cluster's, and is made anew.", d.namespace, d.own), nil
		case !isOurs(found) || !equality.Semantic.DeepEqual(found.Spec, spec):
			changed := found.DeepCopy()
			changed.Spec, changed.Labels = spec, managed(p.fc, d.namespace, d.own).Labels
			if _, err := commit.Commit(ctx, client, found, changed); err != nil {
				return nil, err
			}
			// It has to be answered anew.
			found = nil
		}
		if found != nil {
			p.own = append(p.own, found)
		}
	}
	return nil, nil
}

// answered is what the other cluster calls our ranges, if it has answered what
// we say now; and else why it will not.
func (p *pass) answered() ([]v1alpha1.CIDRMapping, *verdict) {
	for _, own := range p.own {
		accepted := accepted(own)
		switch {
		case own.Status.ObservedGeneration < own.Generation || accepted == nil:
		case accepted.Status == metav1.ConditionTrue:
			if local := complete(own.Spec, own.Status.CIDRs); local != nil {
				return local, nil
			}
		case accepted.Status == metav1.ConditionFalse:
			return nil, refused(accepted.Message)
		}
	}
	return nil, nil
}

// complete is what each of the ranges is called, in their order; nil if that
// was not said, or not well. Of a family that the other cluster does not have
// nothing is said.
func complete(spec v1alpha1.NetworkConfigSpec, said []v1alpha1.CIDRMapping) []v1alpha1.CIDRMapping {
	var list []v1alpha1.CIDRMapping
	for _, cidr := range slices.Concat(spec.PodCIDRs, spec.ExternalCIDRs) {
		at := slices.IndexFunc(said, func(m v1alpha1.CIDRMapping) bool { return m.CIDR == cidr })
		switch {
		case at >= 0:
			list = append(list, said[at])
		case slices.ContainsFunc(said, func(m v1alpha1.CIDRMapping) bool {
			return netutils.IsIPv6CIDRString(m.CIDR) == netutils.IsIPv6CIDRString(cidr)
		}):
			return nil
		}
	}
	if len(validation.ValidateCIDRMappings(internal(list))) > 0 {
		return nil
	}
	return list
}
