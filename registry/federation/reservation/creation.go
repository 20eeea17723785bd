// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/resource"
)

// creation is an API request that may create an object or increase what an object requests.
type creation[P resource.Object, Q, T any, S ledger.Sum[S, T]] struct {
	*ledger.Creation[Q, T, S]
	kind       *Kind[P, Q]
	consumer   string
	remote     bool
	validation rest.ValidateObjectFunc
}

func (r *REST[P, Q, T, S]) begin(ctx context.Context, dry bool,
	validation rest.ValidateObjectFunc) (*creation[P, Q, T, S], error) {
	consumer, remote, err := r.ConsumerOf(ctx, genericapirequest.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	return &creation[P, Q, T, S]{Creation: r.ledgers.Begin(dry), kind: &r.kind, consumer: consumer, remote: remote,
		validation: validation}, nil
}

// reserve calls c.validation, the validating admission of a new object, and then reserves quota for the object: it must
// be the last validation before the object is stored. It fails with the error of Kind.Refusal if the quota is exceeded,
// and with Forbidden if the remote namespace has no LabelForeignCluster with the name of its consumer.
func (c *creation[P, Q, T, S]) reserve(ctx context.Context, obj runtime.Object) error {
	if c.validation != nil {
		if err := c.validation(ctx, obj); err != nil {
			return err
		}
	}
	if !c.remote {
		return nil
	}
	created, ok := obj.(P)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected an object of %s, got a %T", c.kind.Resource, obj))
	}
	if c.consumer == "" {
		return apierrors.NewForbidden(federation.Resource(c.kind.Resource), created.GetName(),
			fmt.Errorf("label %s of its namespace does not name the consumer", v1alpha1.LabelForeignCluster))
	}
	_, err := c.Reserve(ctx, c.consumer, created.GetUID(), c.kind.Requests(created))
	return c.kind.refusal(c.consumer, created.GetName(), err)
}

// consumerKey is the context key of the consumer of a request.
type consumerKey struct{}

// context returns ctx; in a remote namespace, with the consumer, which Consumer returns.
func (c *creation[P, Q, T, S]) context(ctx context.Context) context.Context {
	if !c.remote {
		return ctx
	}
	return context.WithValue(ctx, consumerKey{}, c.consumer)
}

// Consumer returns the consumer whose quota a new object uses; false if it uses none. A strategy writes the consumer
// into the status of the object, because the labels of the namespace can change, but an object must use quota in the
// same ledger until it is deleted.
func Consumer(ctx context.Context) (string, bool) {
	consumer, ok := ctx.Value(consumerKey{}).(string)
	return consumer, ok
}
