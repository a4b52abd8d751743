from dshap.designs.kriging.design import KrigingDesign as KrigingDesign
from dshap.designs.kriging.factory import kriging as kriging
from dshap.designs.kriging.tuning import MAX_KRIGED as MAX_KRIGED
from dshap.designs.kriging.tuning import MAX_KRIGED_PLAYERS as MAX_KRIGED_PLAYERS
