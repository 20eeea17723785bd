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

// Creation is one request that may create an object, or have one take more. It
// may try several times, with another reservation each time, of which the last
// one counts.
type Creation[Q, T any, S Sum[S, T]] struct {
	ledgers *Ledgers[Q, T, S]
	// dry requests reserve nothing.
	dry bool
	// reserved is the reservation that there is for an object, in an account.
	reserved, object types.UID
	account          string
}

// Begin begins a request, which is a dry run or not.
func (l *Ledgers[Q, T, S]) Begin(dry bool) *Creation[Q, T, S] {
	return &Creation[Q, T, S]{ledgers: l, dry: dry}
}

// Reserve reserves what an object will take, and returns it. What was reserved
// before is dropped.
func (c *Creation[Q, T, S]) Reserve(ctx context.Context, account string, uid types.UID, asked Q) (T, error) {
	if c.dry {
		return c.ledgers.Check(ctx, account, asked)
	}
	c.Drop()
	takes, err := c.ledgers.Reserve(ctx, account, uid, asked)
	if err == nil {
		c.account, c.reserved, c.object = account, uid, uid
	}
	return takes, err
}

// Grow reserves what an object, as it was read, will take more, and returns it.
// What was reserved before is dropped.
func (c *Creation[Q, T, S]) Grow(ctx context.Context, account string, obj strategy.Object, asked Q) (T, error) {
	if c.dry {
		return c.ledgers.Check(ctx, account, asked)
	}
	c.Drop()
	since, err := revisionOf(obj.GetResourceVersion())
	if err != nil {
		var nothing T
		return nothing, err
	}
	reservation := uuid.NewUUID()
	takes, err := c.ledgers.Grow(ctx, account, reservation, obj.GetUID(), since, asked)
	if err == nil {
		c.account, c.reserved, c.object = account, reservation, obj.GetUID()
	}
	return takes, err
}

// End tells what became of the reservation: what the request is answered with.
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
	// It may have been stored, or may be yet.
	c.ledgers.Forget(c.account, c.reserved)
}

// Drop drops what was reserved.
func (c *Creation[Q, T, S]) Drop() {
	if c.reserved != "" {
		c.ledgers.Dropped(c.account, c.reserved)
		c.reserved = ""
	}
}

// refused tells an answer that means that nothing was stored.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
