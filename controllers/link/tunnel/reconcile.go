// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// pass is the state of one reconcile of a ForeignCluster.
type pass struct {
	facts
	fc *v1alpha1.ForeignCluster
	// directions are the peerings that need the tunnel.
	directions []direction
	// local are the local cluster's NetworkConfigs, except those that this reconcile updated, and remote the peer's
	// NetworkConfigs that were not refused.
	local, remote []*v1alpha1.NetworkConfig
	// remapped maps each range of the peer to the range that was allocated for it.
	remapped map[string]string
	// tunnel is the TunnelEndpoint of the peer; nil if it does not exist.
	tunnel *v1alpha1.TunnelEndpoint
	// after is the time until the next reconcile; zero means that only an event triggers one.
	after time.Duration
}

// Reconcile reconciles the tunnel to one peer, or the gateways' Lease for leaseRequest.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request == leaseRequest {
		return kit.CreateResult(r.followLease(ctx))
	}
	return kit.CreateResult(r.reconcile(ctx, request.Name))
}

func (r *Reconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	fc := &v1alpha1.ForeignCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, fc); apierrors.IsNotFound(err) {
		fc = nil
		r.remapAttempts.Delete(name)
	} else if err != nil {
		return 0, err
	}
	directions, err := r.directions(ctx, name, fc)
	if err != nil {
		return 0, err
	}
	p := &pass{fc: fc}
	intended := fc != nil && r.mode(fc) == v1alpha1.NetworkingTunnel
	for _, d := range directions {
		needed, err := r.needsTunnel(ctx, d)
		if err != nil {
			return 0, err
		}
		if intended && needed {
			p.directions = append(p.directions, d)
		}
	}
	var own *v1alpha1.PeeringGateway
	if inBand(fc) {
		if err := r.readTunnel(ctx, p); err != nil {
			return 0, err
		}
		var left time.Duration
		if own, left, err = r.gateway(ctx, &p.facts, p.tunnel, fc.Status.Gateway); err != nil {
			return 0, err
		}
		p.after = kit.Sooner(p.after, left)
	}
	if len(p.directions) == 0 {
		alone, err := r.withdraw(ctx, name, p, directions)
		if err != nil || fc == nil {
			return 0, err
		}
		if alone == nil {
			alone = absent(fc, intended, directions)
		}
		return p.after, r.report(ctx, fc, own, *alone)
	}
	for _, d := range directions {
		if !slices.Contains(p.directions, d) {
			if err := r.deleteConfig(ctx, d); err != nil {
				return 0, err
			}
		}
	}
	current, err := r.agree(ctx, p)
	if err != nil {
		return 0, err
	}
	return p.after, r.report(ctx, fc, own, *current)
}

// mode returns spec.networking of a ForeignCluster or, if that is empty, r.Networking.
func (r *Reconciler) mode(fc *v1alpha1.ForeignCluster) v1alpha1.NetworkingMode {
	return cmp.Or(fc.Spec.Networking, r.Networking)
}

// agree runs the steps of the negotiation until one of them waits or fails, and returns the state of
// the network to the peer. A step that is done returns neither a state nor an error.
func (r *Reconciler) agree(ctx context.Context, p *pass) (*state, error) {
	if err := r.readTunnel(ctx, p); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *pass) (*state, error){
		r.ensureKeys,
		r.findMTU,
		r.ensurePools,
		r.readEndpoints,
		r.ensureConfigs,
		r.readRemoteConfigs,
		r.ensureMappings,
		r.answerConfigs,
		r.ensureTunnel,
	} {
		current, err := step(ctx, p)
		if err != nil {
			return nil, err
		}
		if current != nil {
			return p.whileUnchanged(current, r.Clock.Now(), r.life.isExpired()), nil
		}
	}
	return p.state(r.Clock.Now(), r.life.isExpired()), nil
}

func (r *Reconciler) ensureKeys(ctx context.Context, p *pass) (*state, error) {
	return r.readKeys(ctx, &p.facts, p.tunnel)
}

func (r *Reconciler) readEndpoints(ctx context.Context, p *pass) (*state, error) {
	return nil, r.findEndpoints(ctx, &p.facts)
}

// withdraw deletes the objects that were created for the peer with a name, the TunnelEndpoint first. If withoutRanges
// keeps the tunnel for the control plane, it returns the state of that tunnel.
func (r *Reconciler) withdraw(
	ctx context.Context, name string, p *pass, directions []direction,
) (alone *state, err error) {
	if p.fc == nil {
		err = r.deleteTunnel(ctx, name)
	} else {
		alone, err = r.withoutRanges(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	if err := r.deleteMappings(ctx, name, nil); err != nil {
		return nil, err
	}
	for _, d := range directions {
		if err := r.deleteConfig(ctx, d); err != nil {
			return nil, err
		}
	}
	return alone, nil
}

// managed returns the metadata of an object that is created for a ForeignCluster.
func managed(fc *v1alpha1.ForeignCluster, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: fc.Name},
	}
}

// isManaged reports whether an object has the label of objects that the controllers created.
func isManaged(object metav1.Object) bool {
	return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}
