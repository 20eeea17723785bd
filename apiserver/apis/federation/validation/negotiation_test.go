// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestValidateResourceRequest(t *testing.T) {
	good := &federation.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"},
		Spec:       federation.ResourceRequestSpec{Resources: quantities("cpu", "2")},
		Status:     federation.ResourceRequestStatus{Phase: federation.NegotiationAccepted, OfferName: "milan"},
	}
	spec := map[string]wrong[*federation.ResourceRequest]{
		"a negative quantity": {func(r *federation.ResourceRequest) { r.Spec.Resources = quantities("memory", "-1Gi") }, []string{"spec.resources[memory]"}},
	}
	runUpdate(t, good, ValidateResourceRequestUpdate, spec)
	spec["a long name"] = wrong[*federation.ResourceRequest]{
		func(r *federation.ResourceRequest) { r.Name = strings.Repeat("r", 41) }, []string{"metadata.name"}}
	spec["no namespace"] = wrong[*federation.ResourceRequest]{func(r *federation.ResourceRequest) { r.Namespace = "" },
		[]string{"metadata.namespace"}}
	runCreate(t, good, ValidateResourceRequest, spec)
	runUpdate(t, good, ValidateResourceRequestStatusUpdate, map[string]wrong[*federation.ResourceRequest]{
		"an unknown phase": {func(r *federation.ResourceRequest) { r.Status.Phase = "Maybe" }, []string{"status.phase"}},
		"an endless phase": {func(r *federation.ResourceRequest) {
			r.Status.Phase = federation.NegotiationPhase(strings.Repeat("x", 300))
		}, []string{"status.phase"}},
		"a path as an offer":    {func(r *federation.ResourceRequest) { r.Status.OfferName = "../milan" }, []string{"status.offerName"}},
		"a negative generation": {func(r *federation.ResourceRequest) { r.Status.ObservedGeneration = -1 }, []string{"status.observedGeneration"}},
		"a reason in words": {func(r *federation.ResourceRequest) {
			r.Status.Conditions = []metav1.Condition{condition(func(c *metav1.Condition) { c.Reason = "it is so" })}
		}, []string{"status.conditions[0].reason"}},
	})
}

func TestValidateResourceOffer(t *testing.T) {
	good := &federation.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-tenant-rome"},
		Spec: federation.ResourceOfferSpec{
			ClusterID: milanID, Resources: quantities("cpu", "2", "pods", "10"),
			Labels: map[string]string{"topology.kubernetes.io/region": "it-mi", "topology.liqo.io/region": "milan",
				"kubernetes.io/arch": "amd64"},
			StorageClasses: []string{"fast", "slow"}, IngressClasses: []string{"nginx"},
			LoadBalancerClasses: []string{"example.org/lb"},
			ReflectedKinds: []metav1.GroupVersionResource{{Group: "cert-manager.io", Version: "v1",
				Resource: "certificates"}},
			Storage: quantities("requests.storage", "10Gi", "persistentvolumeclaims", "3",
				"fast.storageclass.storage.k8s.io/requests.storage", "1Gi"),
			ExternalVolumes: federation.ExternalVolumes{Types: []string{"nfs", "iscsi"},
				CSIDrivers: []string{"secrets-store.csi.k8s.io"}},
		},
	}
	spec := map[string]wrong[*federation.ResourceOffer]{
		"no cluster id":   {func(o *federation.ResourceOffer) { o.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"no resources":    {func(o *federation.ResourceOffer) { o.Spec.Resources = nil }, []string{"spec.resources"}},
		"negative memory": {func(o *federation.ResourceOffer) { o.Spec.Resources = quantities("memory", "-1") }, []string{"spec.resources[memory]"}},
		"a broken label":  {func(o *federation.ResourceOffer) { o.Spec.Labels = map[string]string{"region": "a b"} }, []string{"spec.labels"}},
		"a role": {func(o *federation.ResourceOffer) {
			o.Spec.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}, []string{"spec.labels[node-role.kubernetes.io/control-plane]"}},
		"another hostname": {func(o *federation.ResourceOffer) {
			o.Spec.Labels = map[string]string{"kubernetes.io/hostname": "rome-cp"}
		}, []string{"spec.labels[kubernetes.io/hostname]"}},
		"another cluster": {func(o *federation.ResourceOffer) {
			o.Spec.Labels = map[string]string{"liqo.io/remote-cluster-id": romeID}
		}, []string{"spec.labels[liqo.io/remote-cluster-id]"}},
		"a label of the consumer's administrator": {func(o *federation.ResourceOffer) {
			o.Spec.Labels = map[string]string{"node-restriction.kubernetes.io/compliance": "pci"}
		}, []string{"spec.labels[node-restriction.kubernetes.io/compliance]"}},
		"too many nodes": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = make([]federation.OfferedNode, v1alpha1.MaxOfferedNodes+1)
		}, []string{"spec.nodes"}},
		"a node without a name": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = []federation.OfferedNode{{Resources: quantities("cpu", "1")}}
		}, []string{"spec.nodes[0].name"}},
		"a node twice": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = []federation.OfferedNode{{Name: "a", Resources: quantities("cpu", "1")},
				{Name: "a", Resources: quantities("cpu", "1")}}
		}, []string{"spec.nodes[1].name"}},
		"a node with nothing": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = []federation.OfferedNode{{Name: "a"}}
		}, []string{"spec.nodes[0].resources"}},
		"a node that is a control plane": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = []federation.OfferedNode{{Name: "a", Resources: quantities("cpu", "1"),
				Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
		}, []string{"spec.nodes[0].labels[node-role.kubernetes.io/control-plane]"}},
		"nodes that have more than is offered": {func(o *federation.ResourceOffer) {
			o.Spec.Nodes = []federation.OfferedNode{{Name: "a", Resources: o.Spec.Resources},
				{Name: "b", Resources: quantities("cpu", "1m")}}
		}, []string{"spec.nodes"}},
		"a class twice":     {func(o *federation.ResourceOffer) { o.Spec.StorageClasses = []string{"fast", "fast"} }, []string{"spec.storageClasses[1]"}},
		"a path as a class": {func(o *federation.ResourceOffer) { o.Spec.IngressClasses = []string{"a/b"} }, []string{"spec.ingressClasses[0]"}},
		"a class of spaces": {func(o *federation.ResourceOffer) { o.Spec.LoadBalancerClasses = []string{" "} }, []string{"spec.loadBalancerClasses[0]"}},
		"too many classes": {func(o *federation.ResourceOffer) {
			o.Spec.StorageClasses = many(maxClasses, func(i int) string { return fmt.Sprintf("c%d", i) })
		}, []string{"spec.storageClasses"}},
		"storage of nodes": {func(o *federation.ResourceOffer) {
			o.Spec.Resources["requests.storage"] = o.Spec.Storage["requests.storage"]
		}, []string{"spec.resources[requests.storage]"}},
		"CPUs as storage": {func(o *federation.ResourceOffer) { o.Spec.Storage = quantities("cpu", "1") }, []string{"spec.storage[cpu]"}},
		"negative storage": {func(o *federation.ResourceOffer) {
			o.Spec.Storage = quantities("requests.storage", "-1")
		}, []string{"spec.storage[requests.storage]"}},
		"half a claim": {func(o *federation.ResourceOffer) {
			o.Spec.Storage = quantities("persistentvolumeclaims", "1500m")
		}, []string{"spec.storage[persistentvolumeclaims]"}},
		"storage of no class": {func(o *federation.ResourceOffer) {
			o.Spec.Storage = quantities(".storageclass.storage.k8s.io/requests.storage", "1")
		}, []string{"spec.storage[.storageclass.storage.k8s.io/requests.storage]"}},
		"paths of nodes": {func(o *federation.ResourceOffer) {
			o.Spec.ExternalVolumes.Types = []string{"hostPath", "local", "emptyDir"}
		}, []string{"spec.externalVolumes.types[0]", "spec.externalVolumes.types[1]", "spec.externalVolumes.types[2]"}},
		"a path as a driver": {func(o *federation.ResourceOffer) {
			o.Spec.ExternalVolumes.CSIDrivers = []string{"a/b"}
		}, []string{"spec.externalVolumes.csiDrivers[0]"}},
		"the driver of the federation": {func(o *federation.ResourceOffer) {
			o.Spec.ExternalVolumes.CSIDrivers = []string{v1alpha1.StorageProvisioner}
		}, []string{"spec.externalVolumes.csiDrivers[0]"}},
		"too many drivers": {func(o *federation.ResourceOffer) {
			o.Spec.ExternalVolumes.CSIDrivers = many(MaxExternalVolumes, func(i int) string { return fmt.Sprintf("d%d", i) })
		}, []string{"spec.externalVolumes.csiDrivers"}},
		"pods": {func(o *federation.ResourceOffer) {
			o.Spec.ReflectedKinds = []metav1.GroupVersionResource{{Version: "v1", Resource: "pods"}}
		}, []string{"spec.reflectedKinds[0].group"}},
		"too many kinds": {func(o *federation.ResourceOffer) {
			o.Spec.ReflectedKinds = make([]metav1.GroupVersionResource, maxKinds+1)
		}, []string{"spec.reflectedKinds"}},
		"too many labels": {func(o *federation.ResourceOffer) {
			for i := range maxLabels + 1 {
				o.Spec.Labels[fmt.Sprintf("l%d", i)] = ""
			}
		}, []string{"spec.labels"}},
	}
	runCreate(t, good, ValidateResourceOffer, spec)
	spec["a change of cluster"] = wrong[*federation.ResourceOffer]{
		func(o *federation.ResourceOffer) { o.Spec.ClusterID = romeID }, []string{"spec.clusterID"}}
	runUpdate(t, good, ValidateResourceOfferUpdate, spec)
	says := func(message string) func(*federation.ResourceOffer) {
		return func(o *federation.ResourceOffer) {
			o.Status.Conditions = []metav1.Condition{condition()}
			o.Status.Conditions[0].Message = message
		}
	}
	runUpdate(t, good, ValidateResourceOfferStatusUpdate, map[string]wrong[*federation.ResourceOffer]{
		"an unknown phase":        {func(o *federation.ResourceOffer) { o.Status.Phase = "Maybe" }, []string{"status.phase"}},
		"forged lines":            {says("no\n    Status:  True"), []string{"status.conditions[0].message"}},
		"a column":                {says("no\tTrue"), []string{"status.conditions[0].message"}},
		"a message of many pages": {says(strings.Repeat("é", maxConsumerMessage+1)), []string{"status.conditions[0].message"}},
	})
}

func TestValidateVirtualNode(t *testing.T) {
	good := &federation.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
		Spec: federation.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan", OfferName: "milan", OfferedNode: "a",
			Resources: quantities("cpu", "2"),
			Labels:    map[string]string{"liqo.io/remote-cluster-id": milanID}, OffloadingPatch: goodPatch()},
	}
	spec := map[string]wrong[*federation.VirtualNode]{
		"no resources":                     {func(n *federation.VirtualNode) { n.Spec.Resources = nil }, []string{"spec.resources"}},
		"a node like others":               {func(n *federation.VirtualNode) { n.Spec.NodeName = "milan" }, []string{"spec.nodeName"}},
		"the node of another virtual node": {func(n *federation.VirtualNode) { n.Spec.NodeName = "liqo-turin" }, []string{"spec.nodeName"}},
		"a path as an offer":               {func(n *federation.VirtualNode) { n.Spec.OfferName = "a/b" }, []string{"spec.offerName"}},
		"a path as an offered node":        {func(n *federation.VirtualNode) { n.Spec.OfferedNode = "a/b" }, []string{"spec.offeredNode"}},
		"an offered node without an offer": {func(n *federation.VirtualNode) { n.Spec.OfferName = "" }, []string{"spec.offerName"}},
		"an unknown API access":            {func(n *federation.VirtualNode) { n.Spec.APIAccess = "Home" }, []string{"spec.apiAccess"}},
		"a broken label":                   {func(n *federation.VirtualNode) { n.Spec.Labels = map[string]string{"a b": ""} }, []string{"spec.labels"}},
	}
	runCreate(t, good, ValidateVirtualNode, spec)
	for name, test := range map[string]wrong[*federation.VirtualNode]{
		"no node":           {func(n *federation.VirtualNode) { n.Spec.NodeName = "" }, []string{"spec.nodeName"}},
		"a long node":       {func(n *federation.VirtualNode) { n.Spec.NodeName = strings.Repeat("n", 64) }, []string{"spec.nodeName"}},
		"another node":      {func(n *federation.VirtualNode) { n.Spec.NodeName = "rome-cp" }, []string{"spec.nodeName"}},
		"another offered":   {func(n *federation.VirtualNode) { n.Spec.OfferedNode = "b" }, []string{"spec.offeredNode"}},
		"another cluster":   {func(n *federation.VirtualNode) { n.Spec.ClusterID = romeID }, []string{"spec.clusterID"}},
		"no cluster at all": {func(n *federation.VirtualNode) { n.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
	} {
		spec[name] = test
	}
	runUpdate(t, good, ValidateVirtualNodeUpdate, spec)
	runUpdate(t, good, ValidateVirtualNodeStatusUpdate, map[string]wrong[*federation.VirtualNode]{
		"a path as a storage class": {func(n *federation.VirtualNode) { n.Status.StorageClasses = []string{"a/b"} }, []string{"status.storageClasses[0]"}},
		"CPUs as storage":           {func(n *federation.VirtualNode) { n.Status.Storage = quantities("cpu", "1") }, []string{"status.storage[cpu]"}},
		"an unknown API access":     {func(n *federation.VirtualNode) { n.Status.APIAccess = "Home" }, []string{"status.apiAccess"}},
		"fewer pods than none":      {func(n *federation.VirtualNode) { n.Status.Pods = -1 }, []string{"status.pods"}},
		"a role that is reflected": {func(n *federation.VirtualNode) {
			n.Status.ReflectedKinds = []metav1.GroupVersionResource{{Group: "rbac.authorization.k8s.io", Version: "v1",
				Resource: "roles"}}
		}, []string{"status.reflectedKinds[0].group"}},
	})
}

func TestValidateNamespaceMap(t *testing.T) {
	good := &federation.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"},
		Spec: federation.NamespaceMapSpec{Namespaces: []federation.NamespaceMapping{{Name: "web",
			RemoteName: "web-rome"}, {Name: "db", RemoteName: "db-rome"}}},
		Status: federation.NamespaceMapStatus{Namespaces: []federation.NamespaceMappingStatus{{Name: "web",
			RemoteName: "web-rome", Phase: federation.NamespaceMappingReady}}},
	}
	spec := map[string]wrong[*federation.NamespaceMap]{
		"a path as a remote name": {func(m *federation.NamespaceMap) { m.Spec.Namespaces[0].RemoteName = "../kube-system" }, []string{"spec.namespaces[0].remoteName"}},
		"no namespace":            {func(m *federation.NamespaceMap) { m.Spec.Namespaces[1].Name = "" }, []string{"spec.namespaces[1].name"}},
		"a namespace twice":       {func(m *federation.NamespaceMap) { m.Spec.Namespaces[1].Name = "web" }, []string{"spec.namespaces[1].name"}},
		"a remote name twice":     {func(m *federation.NamespaceMap) { m.Spec.Namespaces[1].RemoteName = "web-rome" }, []string{"spec.namespaces[1].remoteName"}},
		"too many namespaces": {func(m *federation.NamespaceMap) {
			m.Spec.Namespaces = many(maxNamespaces, func(i int) federation.NamespaceMapping {
				return federation.NamespaceMapping{Name: fmt.Sprintf("n%d", i), RemoteName: fmt.Sprintf("r%d", i)}
			})
		}, []string{"spec.namespaces"}},
	}
	runCreate(t, good, ValidateNamespaceMap, spec)
	runUpdate(t, good, ValidateNamespaceMapUpdate, spec)
	runUpdate(t, good, ValidateNamespaceMapStatusUpdate, map[string]wrong[*federation.NamespaceMap]{
		"an unknown phase":        {func(m *federation.NamespaceMap) { m.Status.Namespaces[0].Phase = "Great" }, []string{"status.namespaces[0].phase"}},
		"no phase":                {func(m *federation.NamespaceMap) { m.Status.Namespaces[0].Phase = "" }, []string{"status.namespaces[0].phase"}},
		"a path as a remote name": {func(m *federation.NamespaceMap) { m.Status.Namespaces[0].RemoteName = "a/b" }, []string{"status.namespaces[0].remoteName"}},
		"an endless reason": {func(m *federation.NamespaceMap) {
			m.Status.Namespaces[0].Message = strings.Repeat("x", maxMappingMessage+1)
		}, []string{"status.namespaces[0].message"}},
		"a namespace twice": {func(m *federation.NamespaceMap) {
			m.Status.Namespaces = append(m.Status.Namespaces, m.Status.Namespaces[0])
		}, []string{"status.namespaces[1].name"}},
		"too many of them": {func(m *federation.NamespaceMap) {
			m.Status.Namespaces = make([]federation.NamespaceMappingStatus, maxNamespaces+1)
		}, []string{"status.namespaces"}},
	})
}
