// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.PeeringToken]{
	{Name: "Consumer", Description: "the cluster that used the invitation, or the only one that may", Cell: func(t *federation.PeeringToken) any {
		switch {
		case t.Status.UsedBy != "":
			return t.Status.UsedBy
		case t.Spec.ConsumerClusterID != "":
			return t.Spec.ConsumerClusterID
		default:
			return "<any>"
		}
	}},
	{Name: "Expires", Description: "how long the invitation is still good for", Cell: func(t *federation.PeeringToken) any {
		left := time.Until(naming.InvitationExpiry(t.CreationTimestamp.Time, t.Spec.ExpirationSeconds))
		if left <= 0 {
			return "<expired>"
		}
		return duration.HumanDuration(left)
	}},
	{Name: "Used", Type: "boolean", Description: "whether a consumer's identity was accepted for it", Cell: func(t *federation.PeeringToken) any {
		return t.Status.Used
	}},
}
