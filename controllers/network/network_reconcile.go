// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/netmap"
)

// direction is one of the two peerings that there may be with a cluster: what
// is said of the networks lies in its namespace.
type direction struct {
	namespace string
	// own is the name of our NetworkConfig there, and theirs that of the other
	// cluster's.
	own, theirs string
	// phase is how the peering stands.
	phase v1alpha1.PeeringPhase
	// able tells that the other cluster knows of tunnels.
	able bool
}

// directions are the peerings with a cluster, also those that are over: what is
// left of them is removed.
func (r *reconciler) directions(name string, fc *v1alpha1.ForeignCluster) ([]direction, error) {
	outgoing := direction{namespace: naming.PeerNamespace(name), own: v1alpha1.NetworkConfigOfConsumer, theirs: v1alpha1.NetworkConfigOfProvider}
	incoming := direction{namespace: naming.TenantNamespace(name), own: v1alpha1.NetworkConfigOfProvider, theirs: v1alpha1.NetworkConfigOfConsumer}
	if fc != nil {
		outgoing.phase, incoming.phase = fc.Status.OutgoingPeering, fc.Status.IncomingPeering
	}
	var err error
	if outgoing.able, err = r.able(outgoing.namespace, func(q *v1alpha1.ResourceRequest) []string { return q.Status.Features }); err != nil {
		return nil, err
	}
	if incoming.able, err = r.able(incoming.namespace, func(q *v1alpha1.ResourceRequest) []string { return q.Spec.Features }); err != nil {
		return nil, err
	}
	return []direction{outgoing, incoming}, nil
}

// able tells whether the other side of a request says that it knows of tunnels.
func (r *reconciler) able(namespace string, features func(*v1alpha1.ResourceRequest) []string) (bool, error) {
	requests, err := r.requests.ResourceRequests(namespace).List(everything)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(requests, func(request *v1alpha1.ResourceRequest) bool {
		return slices.Contains(features(request), compatibility.FeatureTunnel)
	}), nil
}

// active tells whether a tunnel is for this peering: since it was established,
// until it is over. What is drained still talks to what stays.
func (r *reconciler) active(d direction) (bool, error) {
	switch d.phase {
	case v1alpha1.PeeringEstablished:
		return d.able, nil
	case v1alpha1.PeeringPending, v1alpha1.PeeringError, v1alpha1.PeeringDisconnecting:
		_, err := r.configs.NetworkConfigs(d.namespace).Get(d.own)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	return false, nil
}

// pass is one look at a foreign cluster.
type pass struct {
	fc *v1alpha1.ForeignCluster
	// ranges are those of the local cluster.
	ranges netmap.Ranges
	// directions are the peerings that a tunnel is for.
	directions []direction
	// publicKey is the one that our gateway is to have, and told the one that it
	// has: the other cluster needs that.
	publicKey, told string
	// mtu is the most that a packet may measure inside of a tunnel, by what our
	// gateway and an administrator say; 0 if nobody does.
	mtu int32
	// calledAt are where our gateway is called, by service if nobody says so;
	// nowhere says why it is not.
	calledAt []string
	service  *corev1.Service
	nowhere  string
	// external are the CIDRs for what is no pod of this cluster.
	external []string
	// own are our NetworkConfigs, and theirs those of the other cluster that are
	// fine.
	own, theirs []*v1alpha1.NetworkConfig
	// mapped is what is called here by the ranges of the other cluster.
	mapped map[string]string
	// endpoint is the tunnel, if there is one.
	endpoint *v1alpha1.TunnelEndpoint
	// after is when to look again even if nothing happens.
	after time.Duration
}

func (r *reconciler) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	switch key {
	case ownKeys:
		_, err := r.keys(ctx, &pass{})
		return 0, err
	case gatewayLease:
		return r.followLease(ctx)
	}
	fc, err := r.clusters.Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil {
		fc = nil
	}
	directions, err := r.directions(key.Name, fc)
	if err != nil {
		return 0, err
	}
	p := &pass{fc: fc}
	var own *v1alpha1.PeeringGateway
	wanted := fc != nil && r.mode(fc) == v1alpha1.NetworkingTunnel
	for _, d := range directions {
		active, err := r.active(d)
		if err != nil {
			return 0, err
		}
		if wanted && active {
			p.directions = append(p.directions, d)
		}
	}
	if inBand(fc) {
		if err := r.existing(p); err != nil {
			return 0, err
		}
		if own, err = r.own(ctx, p, fc.Status.Gateway); err != nil {
			return retry(err)
		}
	}
	if len(p.directions) == 0 {
		var said verdict
		if fc != nil {
			said = absent(fc, wanted, directions)
		}
		if alone, err := r.withdraw(ctx, key.Name, p, directions); err != nil || fc == nil {
			return retry(err)
		} else if alone != nil {
			said = *alone
		}
		return p.after, r.tell(ctx, fc, own, said)
	}
	for _, d := range directions {
		if !slices.Contains(p.directions, d) {
			if err := r.removeConfig(ctx, d); err != nil {
				return 0, err
			}
		}
	}
	verdict, err := r.agree(ctx, p)
	if err != nil {
		return retry(err)
	}
	return p.after, r.tell(ctx, fc, own, verdict)
}

// retry tells when to look again after an error: soon, where the cache has not
// seen what was written a moment ago.
func retry(err error) (time.Duration, error) {
	if stale(err) {
		return time.Second, nil
	}
	return 0, err
}

// stale tells whether a write was based on something that is no more so.
func stale(err error) bool { return apierrors.IsAlreadyExists(err) }

// agree takes the agreement with a foreign cluster one pass further, and tells
// how far that is.
func (r *reconciler) agree(ctx context.Context, p *pass) (verdict, error) {
	if err := r.existing(p); err != nil {
		return verdict{}, err
	}
	for _, step := range []func(context.Context, *pass) (*verdict, error){
		r.keys,
		r.ownMTU,
		r.addressPools,
		r.ownEndpoints,
		r.ownConfigs,
		r.theirConfigs,
		r.addressMappings,
		r.answers,
		r.tunnel,
	} {
		if said, err := step(ctx, p); err != nil || said != nil {
			if said == nil {
				said = &verdict{}
			}
			return *said, err
		}
	}
	return p.standing(r.Clock.Now(), r.gateway.isSilent()), nil
}

// existing finds the tunnel to a foreign cluster, if there is one.
func (r *reconciler) existing(p *pass) (err error) {
	if p.endpoint, err = r.endpoints.Get(p.fc.Name); apierrors.IsNotFound(err) {
		p.endpoint, err = nil, nil
	}
	return err
}

// withdraw removes everything that was made for a foreign cluster, the tunnel
// first, unless it carries the control plane: then it tells how that stands.
func (r *reconciler) withdraw(ctx context.Context, name string, p *pass, directions []direction) (alone *verdict, err error) {
	if p.fc == nil {
		err = r.removeEndpoint(ctx, name)
	} else {
		alone, err = r.withoutRanges(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	if err := r.removeMappings(ctx, name, nil); err != nil {
		return nil, err
	}
	for _, d := range directions {
		if err := r.removeConfig(ctx, d); err != nil {
			return nil, err
		}
	}
	return alone, nil
}

// removeConfig removes our NetworkConfig of one peering.
func (r *reconciler) removeConfig(ctx context.Context, d direction) error {
	config, err := r.configs.NetworkConfigs(d.namespace).Get(d.own)
	if apierrors.IsNotFound(err) || err == nil && (config.DeletionTimestamp != nil || !isOurs(config)) {
		return nil
	}
	if err == nil {
		err = r.Federation.FederationV1alpha1().NetworkConfigs(d.namespace).Delete(ctx, d.own, exactly(config))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove NetworkConfig %s/%s: %w", d.namespace, d.own, err)
	}
	return nil
}

// exactly deletes the object that was looked at, and not one that took its
// name.
func exactly(object metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(object.GetUID())}}
}

// managed is the metadata of what is made for a foreign cluster.
func managed(fc *v1alpha1.ForeignCluster, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: fc.Name},
	}
}

// isOurs tells whether the controllers made an object.
func isOurs(object metav1.Object) bool {
	return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}
