// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.ShadowPod]{
	{Name: "Status", Description: "how the pod ended, or what keeps it from running; Active while the pod itself tells", Cell: func(p *federation.ShadowPod) any {
		created := meta.FindStatusCondition(p.Status.Conditions, federation.ConditionPodCreated)
		switch {
		case p.Status.Phase != "":
			return string(p.Status.Phase)
		case p.DeletionTimestamp != nil:
			return "Terminating"
		case created != nil && created.Status == metav1.ConditionFalse:
			return created.Reason
		default:
			return "Active"
		}
	}},
}
