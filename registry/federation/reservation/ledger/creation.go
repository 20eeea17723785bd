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

	"liqo.io/federation/registry/federation/resource"
)

// Creation is an API request that may create an object or increase what an object requests. The store may validate the
// object several times for one request. Each validation replaces the reservation of the previous one.
type Creation[Q, T any, S Sum[S, T]] struct {
	ledgers *Ledgers[Q, T, S]
	// dry is true for a dry run, which reserves nothing.
	dry bool
	// reserved is the UID of the current reservation, empty if there is none. object is the UID of the object for which
	// it was made, and account is the name of its ledger.
	reserved, object types.UID
	account          string
}

// Begin returns the Creation of an API request. dry is true for a dry run. The caller must call End.
func (l *Ledgers[Q, T, S]) Begin(dry bool) *Creation[Q, T, S] {
	return &Creation[Q, T, S]{ledgers: l, dry: dry}
}

// Reserve reserves quota for a new object in the ledger of an account, and returns the reserved amount. It replaces an
// earlier reservation of the same request. It fails with the error of the policy if the policy refuses the amount.
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

// Grow reserves the amount that an existing object requests in addition. obj is the object before the update. It
// returns the reserved amount and fails like Reserve.
func (c *Creation[Q, T, S]) Grow(ctx context.Context, account string, obj resource.Object, amount Q) (T, error) {
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

// End ends the reservation once the response to the API request is known: with Ledgers.Created if the response is the
// stored object, with Dropped if nothing was stored, and with Forget if the object may have been stored. answer and err
// are the response.
func (c *Creation[Q, T, S]) End(answer runtime.Object, err error) {
	if c.reserved == "" {
		return
	}
	if obj, ok := answer.(resource.Object); err == nil && ok && obj.GetUID() == c.object {
		c.ledgers.Created(c.reserved, obj)
		return
	}
	if err == nil || refused(err) {
		c.Drop()
		return
	}
	// After any other error, the object may have been stored, or may be stored later.
	c.ledgers.Forget(c.account, c.reserved)
}

// Drop releases the reservation, if there is one. It must not be called if the object may have been stored.
func (c *Creation[Q, T, S]) Drop() {
	if c.reserved != "" {
		c.ledgers.Dropped(c.account, c.reserved)
		c.reserved = ""
	}
}

// refused reports whether an error means that no object was stored.
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
