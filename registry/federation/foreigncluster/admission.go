// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// admissionCommand returns the shell command with which an administrator of the provider admits the local cluster
// in-band. cluster is the ForeignCluster of the provider; name and id are the name and the ID of the local cluster. The
// result is empty unless cluster has mode InBand, an outgoing peering and, in its status, the local gateway. It
// contains no secret, and its quoted argument contains no single quote.
func admissionCommand(cluster *federation.ForeignCluster, name, id string) string {
	gateway := cluster.Status.Gateway
	if cluster.Spec.Mode != federation.PeeringInBand || cluster.Spec.Outgoing != federation.PeeringEnabled ||
		gateway == nil {
		return ""
	}
	body, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string    `json:"metadata"`
		Spec            v1alpha1.PeeringSpec `json:"spec"`
	}{
		metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Peering"},
		map[string]string{"name": name},
		v1alpha1.PeeringSpec{
			Outgoing: v1alpha1.PeeringDisabled, Incoming: v1alpha1.PeeringEnabled, ClusterID: id, Mode: v1alpha1.PeeringInBand,
			Gateway: &v1alpha1.PeeringGateway{PublicKey: gateway.PublicKey, Endpoints: gateway.Endpoints},
		},
	})
	if err != nil {
		return "" // every value can be encoded
	}
	return fmt.Sprintf("printf %%s '%s' | kubectl create --raw '/apis/%s/foreignclusters/%s/peer' -f -", body,
		v1alpha1.SchemeGroupVersion, name)
}
