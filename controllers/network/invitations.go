// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// invitations says of our gateway what those have to know who are invited to
// come by the tunnel.
type invitations struct {
	*reconciler
	tokens listers.PeeringTokenLister
}

// NewInvitations makes the controller of the invitations to come by the tunnel.
func NewInvitations(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	secrets := config.SecretInformers.Core().V1().Secrets()
	r := &invitations{
		reconciler: &reconciler{
			Config: config, secrets: secrets.Lister().Secrets(config.Namespace), infos: informers.ClusterInfos().Lister(),
		},
		tokens: informers.PeeringTokens().Lister(),
	}
	controller := queue.New("invitation-gateway", 1, r.reconcile)
	all := func(any) []cache.ObjectName {
		tokens, err := r.tokens.List(everything)
		if err != nil {
			return nil
		}
		var keys []cache.ObjectName
		for _, token := range tokens {
			keys = append(keys, cache.ObjectName{Name: token.Name})
		}
		return keys
	}
	watches := []watch{
		{informers.PeeringTokens().Informer(), controller.Handle(queue.ObjectKeys)},
		{secrets.Informer(), controller.Handle(all)},
		{informers.ClusterInfos().Informer(), unless(sameInfo, controller.Handle(all))},
	}
	watches = append(watches, r.watchGateways(controller.Handle(all))...)
	for _, watched := range watches {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, fmt.Errorf("watch for the invitations by the tunnel: %w", err)
		}
	}
	return controller, nil
}

func (r *invitations) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	token, err := r.tokens.Get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil || token.DeletionTimestamp != nil || token.Spec.Mode != v1alpha1.PeeringInBand || token.Status.Used {
		return 0, err
	}
	p := &pass{}
	own, err := r.own(ctx, p, token.Status.Gateway)
	if err != nil || own == nil {
		return retry(err)
	}
	told := token.DeepCopy()
	told.Status.Gateway = own
	_, err = commit.Commit(ctx, r.Federation.FederationV1alpha1().PeeringTokens(), token, told)
	return p.after, err
}
