// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peeringtoken serves PeeringTokens and their subresource invitation.
package peeringtoken

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

// maxTokens is the maximum number of PeeringTokens in a cluster. A controller deletes expired ones.
const maxTokens = 1000

// Kind is the definition of PeeringTokens.
var Kind = resource.Kind[*federation.PeeringToken, federation.PeeringTokenSpec, federation.PeeringTokenStatus]{
	Resource: "peeringtokens", Singular: "peeringtoken", ShortNames: []string{"pt"},
	New:     func() runtime.Object { return &federation.PeeringToken{} },
	NewList: func() runtime.Object { return &federation.PeeringTokenList{} },
	Parts: func(obj *federation.PeeringToken) (*federation.PeeringTokenSpec, *federation.PeeringTokenStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidatePeeringToken,
	ValidateUpdate:       validation.ValidatePeeringTokenUpdate,
	ValidateStatusUpdate: validation.ValidatePeeringTokenStatusUpdate,
	Max:                  maxTokens,
	Warnings:             warnings,
	Columns: store.Table[*federation.PeeringToken]{
		{Name: "Consumer", Description: "cluster ID of the consumer that used the invitation, or of the only one that may",
			Cell: func(t *federation.PeeringToken) any {
				switch {
				case t.Status.UsedBy != "":
					return t.Status.UsedBy
				case t.Spec.ConsumerClusterID != "":
					return t.Spec.ConsumerClusterID
				default:
					return "<any>"
				}
			}},
		{Name: "Expires", Description: "remaining lifetime of the invitation",
			Cell: func(t *federation.PeeringToken) any {
				left := time.Until(naming.InvitationExpiry(t.CreationTimestamp.Time, t.Spec.ExpirationSeconds))
				if left <= 0 {
					return "<expired>"
				}
				return duration.HumanDuration(left)
			}},
		{Name: "Used", Type: "boolean", Description: "whether a consumer used the invitation",
			Cell: func(t *federation.PeeringToken) any {
				return t.Status.Used
			}},
	},
}
