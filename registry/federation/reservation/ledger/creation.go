// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"liqo.io/federation/registry/federation/strategy"
)

// Creation is one API request that may create an object or let one grow. It may try
// several times, each with a reservation of its own, of which the last one counts.
type Creation[Q, T any, S Sum[S, T]] struct {
	ledgers *Ledgers[Q, T, S]
	// dry requests reserve nothing.
	dry bool
	// reserved is the current reservation, of an object in an account.
	reserved, object types.UID
	account          string
}

// Begin begins a request, which may be a dry run.
func (l *Ledgers[Q, T, S]) Begin(dry bool) *Creation[Q, T, S] {
	return &Creation[Q, T, S]{ledgers: l, dry: dry}
}

// Reserve reserves an amount for a new object, and returns what it reserved. It drops an
// earlier reservation of the same request.
func (c *Creation[Q, T, S]) Reserve(ctx context.Context, account string, uid types.UID, amount Q) (T, error) {
	if c.dry {
		return c.ledgers.Check(ctx, account, amount)
	}
	c.Drop()
	reserved, err := c.ledgers.Reserve(ctx, account, uid, amount)
	if err == nil {
		c.account, c.reserved, c.object = account, uid, uid
	}
	return reserved, err
}

// Grow reserves what an object, as it was read, requests in addition, and returns what it
// reserved. It drops an earlier reservation of the same request.
func (c *Creation[Q, T, S]) Grow(ctx context.Context, account string, obj strategy.Object, amount Q) (T, error) {
	if c.dry {
		return c.ledgers.Check(ctx, account, amount)
	}
	c.Drop()
	since, err := revisionOf(obj.GetResourceVersion())
	if err != nil {
		var nothing T
		return nothing, err
	}
	reservation := uuid.NewUUID()
	reserved, err := c.ledgers.Grow(ctx, account, reservation, obj.GetUID(), since, amount)
	if err == nil {
		c.account, c.reserved, c.object = account, reservation, obj.GetUID()
	}
	return reserved, err
}

// End ends the reservation by the answer to the request.
func (c *Creation[Q, T, S]) End(answer runtime.Object, err error) {
	if c.reserved == "" {
		return
	}
	if obj, ok := answer.(strategy.Object); err == nil && ok && obj.GetUID() == c.object {
		c.ledgers.Created(c.reserved, obj)
		return
	}
	if err == nil || refused(err) {
		c.Drop()
		return
	}
	// It may have been stored, or may still be.
	c.ledgers.Forget(c.account, c.reserved)
}

// Drop drops the reservation.
func (c *Creation[Q, T, S]) Drop() {
	if c.reserved != "" {
		c.ledgers.Dropped(c.account, c.reserved)
		c.reserved = ""
	}
}

// refused reports whether an answer means that nothing was stored.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}
